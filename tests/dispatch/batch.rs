//! Batches that are sent while they come in.

use postrider::proto::v1::{SendEmailRequest, Status};

use super::gateway;
use crate::support::{app::TestApp, caller::emails, setup::Setup};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_email_of_a_batch_arrives_once_though_the_batch_is_repeated() {
    let gateway = gateway().await;
    let app = TestApp::start(&Setup::new().http("gateway", &gateway.url())).await;
    let mut requests = emails("ada", 300);
    requests.insert(150, SendEmailRequest::default());
    let first = app.send_batch(requests.clone()).await;
    assert_eq!(first[150], Err("INVALID_REQUEST".to_owned()));
    for _ in 0..2 {
        assert_eq!(app.send_batch(requests.clone()).await, first);
    }
    let ids: Vec<String> = first.into_iter().flatten().collect();
    assert_eq!(ids.len(), 300);
    app.wait_for_all(&ids, Status::SuccessSent).await;
    let counts = gateway.inbox().counts();
    assert_eq!((counts.mails, counts.repeats), (300, 0));
    app.finish().await;
}
