//! An outcome that comes when the message has gone on without it: a process is frozen while the answer is on its way.

use std::time::Duration;

use postrider::{
    proto::v1::{GetStatusResponse, Status},
    sandbox::http::{Fault, HttpSink},
};

use super::{arrivals, gateway};
use crate::support::{
    caller::{PATIENCE, email_to, history},
    postgres::Database,
    process::Process,
    setup::Setup,
};

/// Two processes on one database, the first of which has lost its message to the second without knowing.
struct Overtaken {
    database: Database,
    gateway: HttpSink,
    frozen: Process,
    other: Process,
    id: String,
}

impl Overtaken {
    /// The gateway has taken the message, and meets the second process with that fault.
    async fn by(fault: Fault) -> Self {
        let (database, gateway) = (Database::new().await, gateway("gateway").await);
        let setup = Setup::new().http("gateway", &gateway.url()).set("retry.pause", "1h");
        let setup = setup.set("dispatch.lease", "2s");
        let frozen = Process::start(&database, &setup).await;
        gateway.set_fault(Fault::Delay(Duration::from_millis(500))).unwrap();
        let id = frozen.send(email_to("ada@example.net")).await;
        gateway.inbox().wait_until(|inbox| inbox.count() == 1, PATIENCE).await.expect("it is taken");
        frozen.freeze();
        gateway.set_fault(fault).unwrap();
        let other = Process::start(&database, &setup).await;
        Self { database, gateway, frozen, other, id }
    }

    /// Lets the first process have its answer.
    async fn thaw(&self) -> GetStatusResponse {
        self.frozen.thaw();
        self.other.wait(&self.id, |status| history(status).iter().any(|line| line.contains("LATE_OUTCOME"))).await
    }

    async fn finish(self) {
        self.frozen.finish().await;
        self.other.finish().await;
        assert_eq!(self.database.count("pending where status = 'IN_PROCESS'").await, 0);
    }
}

#[tokio::test]
async fn a_late_outcome_changes_nothing_but_the_history() {
    let overtaken = Overtaken::by(Fault::None).await;
    let sent = overtaken.other.wait_for(&overtaken.id, Status::SuccessSent).await;
    assert_eq!(history(&sent), ["1 TAKEOVER gateway OUTCOME_UNKNOWN", "2 ATTEMPT gateway ACCEPTED"]);

    let told = overtaken.thaw().await;
    assert_eq!(history(&told)[2], "1 LATE_OUTCOME gateway ACCEPTED");
    assert_eq!(GetStatusResponse { events: told.events[..2].to_vec(), ..told }, sent);
    assert_eq!(arrivals(&overtaken.gateway.inbox()), [2]);
    overtaken.finish().await;
}

#[tokio::test]
async fn a_late_acceptance_ends_what_still_waits() {
    let overtaken = Overtaken::by(Fault::Status { code: 503, retry_after: None }).await;
    let waiting = overtaken.other.wait_for(&overtaken.id, Status::RequiredResend).await;
    assert_eq!(history(&waiting), ["1 TAKEOVER gateway OUTCOME_UNKNOWN", "2 ATTEMPT gateway UNAVAILABLE"]);

    let told = overtaken.thaw().await;
    assert_eq!(told.status(), Status::SuccessSent);
    assert_eq!(history(&told)[2], "1 LATE_OUTCOME gateway ACCEPTED");
    assert_eq!(arrivals(&overtaken.gateway.inbox()), [1], "it is not sent again");
    overtaken.finish().await;
}
