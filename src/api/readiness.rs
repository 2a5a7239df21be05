//! What `grpc.health.v1` answers: whether this process takes calls.
//!
//! Owns the answer for the process, for its services and for what is worth a warning; does not find out whether the
//! database or a provider is well.

use tonic::server::NamedService as _;
use tonic_health::{
    ServingStatus,
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};

use super::{email::EmailApi, operator::OperatorApi};
use crate::proto::v1::{email_service_server::EmailServiceServer, operator_service_server::OperatorServiceServer};

/// What is answered for.
const PROCESS: &str = "";
const EMAIL: &str = EmailServiceServer::<EmailApi>::NAME;
const OPERATOR: &str = OperatorServiceServer::<OperatorApi>::NAME;
/// No service but a warning: NOT_SERVING while everything works, but not for long if nobody looks.
const DAYS_AHEAD: &str = "postrider.outbox.days_ahead";

/// Another: NOT_SERVING while no provider of a chain is asked, so that what is accepted only waits.
const PROVIDERS: &str = "postrider.providers";

/// How it stands with what a process needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The database is there.
    pub database: bool,
    /// What is accepted now has a table to go into.
    pub days: bool,
    /// There are tables for the days to come.
    pub days_ahead: bool,
    /// What is accepted now is sent, as far as the providers go.
    pub providers: bool,
}

/// The switch behind `grpc.health.v1`. Clones switch the same answer.
#[derive(Clone, Debug)]
pub struct Readiness {
    reporter: HealthReporter,
    answers_calls: bool,
}

impl Readiness {
    /// The switch of a process that answers calls, or of one that answers for its health alone.
    pub(super) fn new(answers_calls: bool) -> Self {
        Self { reporter: HealthReporter::default(), answers_calls }
    }

    /// From now on the answer is SERVING.
    pub async fn set_serving(&self) {
        self.set(Standing { database: true, days: true, days_ahead: true, providers: true }).await;
    }

    /// From now on the answer is NOT_SERVING: callers that look go elsewhere.
    pub async fn set_not_serving(&self) {
        self.set(Standing { database: false, days: false, days_ahead: false, providers: false }).await;
    }

    /// From now on the answer is this: each name is SERVING if what it needs is there.
    pub async fn set(&self, standing: Standing) {
        let Standing { database, days, days_ahead, providers } = standing;
        for name in self.names() {
            let is_serving = match name {
                EMAIL => database && days,
                DAYS_AHEAD => days_ahead,
                PROVIDERS => providers,
                _ => database,
            };
            let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Ends the streams of those who watch. A watch has no end of its own, and would keep the server from stopping.
    pub(super) async fn end_watches(&self) {
        let mut reporter = self.reporter.clone();
        for name in self.names() {
            reporter.clear_service_status(name).await;
        }
    }

    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let answers_calls = self.answers_calls;
        [PROCESS, DAYS_AHEAD, PROVIDERS, EMAIL, OPERATOR].into_iter().take(if answers_calls { 5 } else { 3 })
    }
}
