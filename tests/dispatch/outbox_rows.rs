//! What claims and settles leave in the tables.

use postrider::{proto::v1::Status, sandbox::http::Fault};

use super::gateway;
use crate::support::{app::TestApp, caller::email_to, setup::Setup};

#[tokio::test]
async fn what_is_to_be_sent_is_written_once_however_often_it_is_tried() {
    let gateway = gateway().await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url())).await;
    gateway.set_fault(Fault::Status { code: 503, retry_after: None }).unwrap();
    let id = app.send(email_to("ada@example.net")).await;
    let row = format!("select ctid::text || ' of ' || xmin::text from message where id = '{id}'");
    let written: String = app.database.scalar(&row).await;
    app.wait(&id, |status| status.rounds == 3).await;
    gateway.set_fault(Fault::None).unwrap();
    app.wait_for(&id, Status::SuccessSent).await;

    assert_eq!(app.database.scalar::<String>(&row).await, written, "another version of the row, content and all");
    app.finish().await;
}
