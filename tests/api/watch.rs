//! `WatchStatus`.

use std::time::Duration;

use postrider::{
    delivery::{Class, Next},
    message::MessageId,
    outbox::{Outbox, Settled},
    proto::v1::{
        CancelEmailRequest, GetStatusRequest, GetStatusResponse, Status, WatchStatusRequest, WatchStatusResponse,
        email_service_client::EmailServiceClient,
    },
};
use tokio::time::timeout;
use tonic::{Code, Streaming, transport::Channel};

use super::{client, refused, request, with_metadata, wrong_fields};
use crate::{
    outbox::{Draft, attempt, claim, settlement},
    support::{
        caller::{PATIENCE, until},
        service::{Service, service, service_with, service_without_database},
        statements::StatementCounter,
    },
};

type Changes = Streaming<WatchStatusResponse>;

fn watched(message_id: impl ToString) -> WatchStatusRequest {
    WatchStatusRequest { message_id: message_id.to_string(), until_failed: false }
}

async fn watch(client: &mut EmailServiceClient<Channel>, id: impl ToString) -> Changes {
    client.watch_status(watched(id)).await.expect("it may be watched").into_inner()
}

async fn next(changes: &mut Changes) -> GetStatusResponse {
    let change = timeout(PATIENCE, changes.message()).await.expect("in time").expect("no error").expect("a change");
    change.message.expect("a message")
}

async fn ended(changes: &mut Changes) {
    let end = timeout(PATIENCE, changes.message()).await.expect("in time").expect("no error");
    assert!(end.is_none(), "{end:?}");
}

async fn send(service: &Service) -> String {
    client(service).await.send_email(request()).await.expect("accepted").into_inner().message_id
}

/// A round with that outcome, in a process that has it due.
async fn round(service: &Service, outbox: &Outbox, class: Class) {
    service.database.execute("update pending set due_at = now() where status = 'REQUIRED_RESEND'").await;
    let claimed = claim(outbox, 1).await.remove(0);
    let settled = outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[class])])]).await;
    assert_eq!(settled.expect("settled"), [Settled::Done]);
}

#[tokio::test]
async fn the_present_state_comes_first_then_every_change_that_another_process_makes() {
    let service = service().await;
    let other = service.database.another_process().await;
    let mut client = client(&service).await;
    let id = send(&service).await;
    let mut changes = watch(&mut client, &id).await;
    let present = next(&mut changes).await;
    assert_eq!((present.status(), present.message_id.as_str()), (Status::NotYetSent, id.as_str()));
    let asked = client.get_status(GetStatusRequest { message_id: id.clone() }).await.expect("found").into_inner();
    assert_eq!(present, asked);

    let claimed = claim(&other, 1).await.remove(0);
    assert_eq!(next(&mut changes).await.status(), Status::InProcess);
    other.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::Unavailable])])]).await.expect("settled");
    let again = next(&mut changes).await;
    assert_eq!((again.status(), again.rounds, again.events.len()), (Status::RequiredResend, 1, 1));
    round(&service, &other, Class::Accepted).await;
    let last = loop {
        let change = next(&mut changes).await;
        if change.status() != Status::InProcess {
            break change;
        }
    };
    assert_eq!((last.status(), last.events.len()), (Status::SuccessSent, 2));
    assert!(last.finished_at.is_some());
    ended(&mut changes).await;
}

#[tokio::test]
async fn it_ends_where_nothing_more_happens() {
    let service = service().await;
    let mut client = client(&service).await;
    let mut canceled = watch(&mut client, send(&service).await).await;
    let id = next(&mut canceled).await.message_id;
    client.cancel_email(CancelEmailRequest { message_id: id.clone() }).await.expect("called off");
    assert_eq!(next(&mut canceled).await.status(), Status::Canceled);
    ended(&mut canceled).await;

    let mut finished = watch(&mut client, id).await;
    assert_eq!(next(&mut finished).await.status(), Status::Canceled, "what is finished is told all the same");
    ended(&mut finished).await;

    let expired = send(&service).await;
    let claimed = claim(&service.database.outbox, 1).await.remove(0);
    let mut changes = watch(&mut client, expired).await;
    assert_eq!(next(&mut changes).await.status(), Status::InProcess);
    let mut settlement = settlement(&claimed, 1, vec![attempt("primary", &[Class::Unavailable])]);
    settlement.next = Next::Finished(postrider::delivery::Status::Expired);
    service.database.outbox.settle(&[settlement]).await.expect("settled");
    assert_eq!(next(&mut changes).await.status(), Status::Expired);
    ended(&mut changes).await;
}

#[tokio::test]
async fn it_ends_at_a_failure_if_asked_and_else_goes_on() {
    let service = service().await;
    let mut client = client(&service).await;
    let id = send(&service).await;
    let request = WatchStatusRequest { until_failed: true, ..watched(&id) };
    let mut until_failed = client.watch_status(request.clone()).await.expect("watched").into_inner();
    let mut goes_on = watch(&mut client, &id).await;
    round(&service, &service.database.outbox, Class::MessageRejected).await;
    for changes in [&mut until_failed, &mut goes_on] {
        while next(changes).await.status() != Status::FailedNotRetryable {}
    }
    ended(&mut until_failed).await;
    let mut late = client.watch_status(request).await.expect("watched").into_inner();
    assert_eq!(next(&mut late).await.status(), Status::FailedNotRetryable);
    ended(&mut late).await;

    client.cancel_email(CancelEmailRequest { message_id: id }).await.expect("called off");
    assert_eq!(next(&mut goes_on).await.status(), Status::Canceled);
    ended(&mut goes_on).await;
}

#[tokio::test]
async fn a_lease_that_is_renewed_is_no_change_and_a_late_outcome_is_one() {
    let service = service().await;
    let outbox = &service.database.outbox;
    let mut client = client(&service).await;
    let id = send(&service).await;
    let first = claim(outbox, 1).await.remove(0);
    let mut changes = watch(&mut client, &id).await;
    assert_eq!(next(&mut changes).await.status(), Status::InProcess);
    outbox.renew(&[first.lease], Duration::from_secs(3600)).await.expect("renewed");
    service.database.execute("update pending set due_at = now() - interval '1 second'").await;
    let second = claim(outbox, 1).await.remove(0);
    let taken_over = next(&mut changes).await;
    assert_eq!((taken_over.status(), taken_over.events.len()), (Status::InProcess, 1), "the renewal was not told");
    let late = settlement(&first, 1, vec![attempt("primary", &[Class::Unavailable])]);
    assert_eq!(outbox.settle(&[late]).await.expect("settled"), [Settled::Late]);
    assert_eq!(next(&mut changes).await.events.len(), 2);
    outbox.release(&[second.lease]).await.expect("released");
    assert_eq!(next(&mut changes).await.status(), Status::RequiredResend);
}

#[tokio::test]
async fn what_cannot_be_watched_says_why() {
    let service = service().await;
    let mut client = client(&service).await;
    for nonsense in ["", "nonsense", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"] {
        let status = client.watch_status(watched(nonsense)).await.expect_err("not an id");
        assert_eq!(wrong_fields(&status), ["message_id"], "{nonsense:?}");
    }
    let now = time::OffsetDateTime::now_utc();
    let cases = [(now, "MESSAGE_NOT_FOUND"), (now - Duration::from_secs(9 * 24 * 3600), "RETENTION_PASSED")];
    for (time, reason) in cases {
        let status = client.watch_status(watched(MessageId::new_at(time))).await.expect_err("no such message");
        refused(&status, Code::NotFound, reason);
    }
    let id = send(&service).await;
    let stranger = with_metadata(watched(&id), &[("x-client-id", "orders")]);
    let status = client.watch_status(stranger).await.expect_err("not theirs");
    refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
    // Also while its owner watches it.
    let mut owner = watch(&mut client, &id).await;
    next(&mut owner).await;
    let stranger = with_metadata(watched(&id), &[("x-client-id", "orders")]);
    let status = client.watch_status(stranger).await.expect_err("not theirs");
    refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
}

#[tokio::test]
async fn no_more_watch_than_may_and_whoever_goes_makes_room() {
    let service = service_with(|settings| settings.server.max_watchers = 2).await;
    let mut client = client(&service).await;
    let id = send(&service).await;
    let mut first = watch(&mut client, &id).await;
    let second = watch(&mut client, &id).await;
    let status = client.watch_status(watched(&id)).await.expect_err("too many");
    let details = refused(&status, Code::ResourceExhausted, "TOO_MANY_WATCHERS");
    assert!(details.retry_info().is_some());
    drop(second);
    until("there is room again", || {
        let mut client = client.clone();
        let id = id.clone();
        async move { client.watch_status(watched(id)).await.is_ok() }
    })
    .await;
    assert_eq!(next(&mut first).await.status(), Status::NotYetSent, "the first is still told");
}

#[tokio::test]
async fn a_stop_ends_those_who_watch_and_is_not_held_up_by_them() {
    let service = service().await;
    let mut client = client(&service).await;
    let mut changes = watch(&mut client, send(&service).await).await;
    next(&mut changes).await;
    let stopped = service.stop();
    let status = timeout(PATIENCE, changes.message()).await.expect("in time").expect_err("it stops");
    let details = refused(&status, Code::Unavailable, "STOPPING");
    assert!(details.retry_info().is_some());
    drop(client);
    let served = timeout(Duration::from_secs(10), stopped).await.expect("stops soon");
    served.expect("no panic").expect("no error");
}

#[tokio::test]
async fn a_message_that_is_no_longer_kept_ends_its_watch() {
    let service = service().await;
    let mut client = client(&service).await;
    let mut changes = watch(&mut client, send(&service).await).await;
    let id = next(&mut changes).await.message_id;
    for table in ["pending", "message"] {
        service.database.execute(&format!("delete from {table}")).await;
    }
    // It is read anew for whoever comes.
    let status = client.watch_status(watched(&id)).await.expect_err("gone");
    refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
    let status = timeout(PATIENCE, changes.message()).await.expect("in time").expect_err("gone");
    refused(&status, Code::NotFound, "MESSAGE_NOT_FOUND");
}

#[tokio::test]
async fn a_database_that_is_away_is_told_to_those_who_know_nothing_yet() {
    let service = service_without_database().await;
    let id = MessageId::new_at(time::OffsetDateTime::now_utc());
    let status = client(&service).await.watch_status(watched(id)).await.expect_err("not known");
    refused(&status, Code::Unavailable, "DATABASE_UNAVAILABLE");
}

#[tokio::test]
async fn whoever_watches_outlasts_a_lost_database() {
    let service = service().await;
    let mut client = client(&service).await;
    let id = send(&service).await;
    let mut changes = watch(&mut client, &id).await;
    next(&mut changes).await;
    service.database.execute("alter table message rename to away").await;
    let theirs = "pg_stat_activity where datname = current_database() and application_name = 'postrider'";
    service.database.execute(&format!("select pg_terminate_backend(pid) from {theirs}")).await;
    let newcomer = client.watch_status(watched(&id)).await;
    newcomer.expect_err("where it stands cannot be told");
    service.database.execute("alter table away rename to message").await;
    service.database.execute("update pending set status = 'IN_PROCESS', token = 1, provider = 'primary'").await;
    assert_eq!(next(&mut changes).await.status(), Status::InProcess);
}

const CROWD: usize = 2_000;

/// How many streams a connection carries.
const STREAMS: usize = 200;

#[tokio::test]
async fn two_thousand_who_watch_cost_four_statements_a_second_and_nothing_once_they_have_gone() {
    let service = service().await;
    let outbox = &service.database.outbox;
    let mut crowd = Vec::new();
    let draft = Draft { client: "default", wait: Duration::from_secs(3600), ..Draft::default() };
    for _ in 0..CROWD / STREAMS {
        let client = client(&service).await;
        let ids = draft.accept(outbox, STREAMS).await;
        let begun = ids.into_iter().map(|id| {
            let mut client = client.clone();
            async move { watch(&mut client, id).await }
        });
        crowd.extend(futures_util::future::join_all(begun).await);
    }
    for changes in &mut crowd {
        assert_eq!(next(changes).await.status(), Status::NotYetSent);
    }

    let statements = StatementCounter::start();
    let began = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (count, seconds) = (statements.take(), began.elapsed().as_secs_f64());
    assert!(count > 0 && count as f64 <= 4.0 * seconds + 1.0, "{count} statements in {seconds} s");

    let table = "with moved as (select id from pending limit 100) update pending
        set status = 'IN_PROCESS', token = 1, provider = 'primary' from moved where pending.id = moved.id";
    service.database.execute(table).await;
    statements.take();
    let began = std::time::Instant::now();
    let changed = futures_util::future::join_all(crowd.iter_mut().map(|changes| async {
        let change = timeout(Duration::from_secs(5), changes.message()).await.ok();
        change.map(|change| change.expect("no error").expect("a change").message.expect("a message").status())
    }));
    let changed: Vec<Status> = changed.await.into_iter().flatten().collect();
    assert_eq!(changed, vec![Status::InProcess; 100], "a hundred are told, the others nothing");
    let (count, seconds) = (statements.take(), began.elapsed().as_secs_f64());
    assert!(count as f64 <= 4.0 * seconds + 2.0, "{count} statements in {seconds} s");

    drop(crowd);
    until("nobody is looked for any more", || async {
        statements.take();
        tokio::time::sleep(Duration::from_millis(600)).await;
        statements.take() == 0
    })
    .await;
}
