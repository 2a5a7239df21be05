//! `GetOverview`: the outbox in numbers.

use postrider::proto::v1::{
    GetOverviewRequest, GetOverviewResponse, Priority, Status, operator_service_client::OperatorServiceClient,
};

use super::{client, request};
use crate::support::service::{Service, service, service_without_database};

async fn overview(service: &Service) -> GetOverviewResponse {
    let mut operator = OperatorServiceClient::new(service.channel().await);
    operator.get_overview(GetOverviewRequest::default()).await.expect("answered").into_inner()
}

fn count(overview: &GetOverviewResponse, status: Status) -> u64 {
    overview.counts.iter().find(|count| count.status() == status).expect("every status is told").count
}

#[tokio::test]
async fn an_overview_counts_by_status_and_tells_how_long_the_oldest_has_been_due() {
    let service = service().await;
    let empty = overview(&service).await;
    assert_eq!(empty.counts.len(), 9);
    assert!(empty.counts.iter().all(|of| of.count == 0), "{empty:?}");
    for _ in 0..3 {
        client(&service).await.send_email(request()).await.expect("accepted");
    }
    service.database.execute("update pending set due_at = now() - interval '1 hour'").await;
    let told = overview(&service).await;
    assert_eq!((count(&told, Status::NotYetSent), count(&told, Status::SuccessSent)), (3, 0));
    let ages: Vec<(Priority, i64)> =
        told.oldest_due.iter().map(|of| (of.priority(), of.age.as_ref().expect("an age").seconds / 3600)).collect();
    assert_eq!(ages, [(Priority::High, 0), (Priority::Normal, 1), (Priority::Bulk, 0)]);
}

#[tokio::test]
async fn without_a_database_there_is_no_overview() {
    let service = service_without_database().await;
    let mut operator = OperatorServiceClient::new(service.channel().await);
    let status = operator.get_overview(GetOverviewRequest::default()).await.expect_err("nothing to count");
    assert_eq!(status.code(), tonic::Code::Unavailable);
}
