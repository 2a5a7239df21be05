//! A whole service in this process, on a database of its own or a shared one.

use std::{ops::Deref, sync::Arc};

use postrider::{app::App, delivery::ProviderName, health::Board};
use time::OffsetDateTime;

use super::{caller::Caller, postgres::Database, setup::Setup};

/// A running service with somebody who calls it. It has to be [finished](TestApp::finish).
pub struct TestApp {
    app: Option<App>,
    caller: Caller,
    pub database: Arc<Database>,
}

impl TestApp {
    /// On a database of its own.
    pub async fn start(setup: &Setup) -> Self {
        Self::start_on(Arc::new(Database::new().await), setup).await
    }

    /// On that database.
    pub async fn start_on(database: Arc<Database>, setup: &Setup) -> Self {
        // Building a client fails without a provider; another test may have installed it already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let app = App::start(&setup.settings(&database)).await.unwrap_or_else(|error| panic!("{error}"));
        Self { caller: Caller::at(format!("http://{}", app.address())), app: Some(app), database }
    }

    /// Whether it leaves that provider alone for a while.
    pub fn waits(&self, provider: &str) -> bool {
        let state = self.board().provider(&ProviderName::new(provider)).expect("it has the provider");
        state.waiting(OffsetDateTime::now_utc()).is_some()
    }

    /// Whether it knows that an operator wants that of a provider.
    pub fn mode_is(&self, provider: &str, mode: &str) -> bool {
        self.board().provider(&ProviderName::new(provider)).expect("it has the provider").mode().as_str() == mode
    }

    fn board(&self) -> &Board {
        self.app.as_ref().expect("it runs").board()
    }

    /// Stops it, and checks that it left nothing taken and that the counts are right.
    pub async fn finish(mut self) {
        if let Some(app) = self.app.take() {
            app.stop().await;
        }
        assert_eq!(self.database.count("pending where status = 'IN_PROCESS'").await, 0, "messages were left taken");
        self.database.tally_is_exact().await;
    }
}

impl Deref for TestApp {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        assert!(self.app.is_none() || std::thread::panicking(), "the service was not finished");
    }
}
