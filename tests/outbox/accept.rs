//! Messages are stored, each once for its key.

use std::{sync::Arc, time::Duration};

use postrider::{
    config,
    delivery::{Class, Status},
    message::{Attachment, Header, MessageId},
    outbox::{Accepted, NewMessage, Outbox, OutboxError},
};
use tokio::{sync::Barrier, task::JoinSet};

use super::{DAY, Draft, HOUR, attempt, claim, claimed_one, settlement};
use crate::support::postgres::Database;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_sixty_four_calls_with_one_key_one_makes_the_message_and_the_others_get_its_id() {
    let db = Database::new().await;
    let other = db.another_process().await;
    let mut calls = JoinSet::new();
    for n in 0..64 {
        let outbox = if n % 2 == 0 { db.outbox.clone() } else { other.clone() };
        calls.spawn(async move {
            let new = Draft::keyed("invoice-7", "same").new_message(&outbox);
            (new.message.id, outbox.accept(&[new]).await.unwrap().remove(0))
        });
    }
    let answers = calls.join_all().await;
    let winners: Vec<MessageId> =
        answers.iter().filter(|(_, answer)| *answer == Accepted::New).map(|(id, _)| *id).collect();
    assert_eq!(winners.len(), 1);
    for (id, answer) in &answers {
        let expected = Accepted::Duplicate { id: winners[0], status: Some(Status::NotYetSent) };
        assert!(*id == winners[0] || *answer == expected, "{answer:?}");
    }
    for table in ["message", "pending", "idempotency", "outbox"] {
        assert_eq!(db.count(table).await, 1, "{table}");
    }
}

#[tokio::test]
async fn a_key_used_for_another_request_is_refused_and_nothing_is_stored() {
    let db = Database::new().await;
    let id = Draft::keyed("k", "one").accept(&db.outbox, 1).await[0];
    let other = Draft::keyed("k", "two").new_message(&db.outbox);
    assert_eq!(db.outbox.accept(&[other]).await.unwrap(), [Accepted::KeyReused { id }]);
    assert_eq!(db.count("message").await, 1);
}

#[tokio::test]
async fn a_key_belongs_to_its_client() {
    let db = Database::new().await;
    Draft::keyed("k", "one").accept(&db.outbox, 1).await;
    Draft { client: "other", ..Draft::keyed("k", "two") }.accept(&db.outbox, 1).await;
    assert_eq!(db.count("message").await, 2);
}

#[tokio::test]
async fn a_batch_may_repeat_itself_and_what_was_there_before() {
    let db = Database::new().await;
    let before = Draft::keyed("old", "one").accept(&db.outbox, 1).await[0];
    let drafts = [
        Draft::keyed("new", "one"),
        Draft::default(),
        Draft::keyed("new", "one"),
        Draft::keyed("new", "two"),
        Draft::keyed("old", "one"),
        Draft::default(),
    ];
    let messages: Vec<NewMessage> = drafts.iter().map(|draft| draft.new_message(&db.outbox)).collect();
    let first = messages[0].message.id;
    let status = Some(Status::NotYetSent);
    assert_eq!(
        db.outbox.accept(&messages).await.unwrap(),
        [
            Accepted::New,
            Accepted::New,
            Accepted::Duplicate { id: first, status },
            Accepted::KeyReused { id: first },
            Accepted::Duplicate { id: before, status },
            Accepted::New,
        ]
    );
    assert_eq!(db.count("message").await, 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_with_the_same_keys_in_other_orders_do_not_lock_each_other_out() {
    let db = Database::new().await;
    let together = Arc::new(Barrier::new(6));
    let mut calls = JoinSet::new();
    for n in 0..6 {
        let (outbox, together) = (db.outbox.clone(), together.clone());
        calls.spawn(async move {
            let mut new = 0;
            for round in 0..10 {
                let key = |k| format!("{round}-{k}");
                let mut messages: Vec<NewMessage> =
                    (0..200).map(|k| Draft::keyed(key(k), "same").new_message(&outbox)).collect();
                messages.rotate_left(n * 20);
                if n % 2 == 1 {
                    messages.reverse();
                }
                together.wait().await;
                let answers = outbox.accept(&messages).await.unwrap();
                new += answers.iter().filter(|answer| **answer == Accepted::New).count();
            }
            new
        });
    }
    assert_eq!(calls.join_all().await.iter().sum::<usize>(), 2000);
    assert_eq!(db.count("message").await, 2000);
    assert_eq!(db.deadlocks().await, 0);
}

#[tokio::test]
async fn a_duplicate_is_told_where_the_message_stands() {
    let db = Database::new().await;
    let draft = Draft::keyed("k", "one");
    let claimed = claimed_one(&db, &draft).await;
    let id = claimed.lease.id;
    let again = || async { db.outbox.accept(&[draft.new_message(&db.outbox)]).await.unwrap().remove(0) };
    assert_eq!(again().await, Accepted::Duplicate { id, status: Some(Status::InProcess) });
    db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::Accepted])])]).await.unwrap();
    assert_eq!(again().await, Accepted::Duplicate { id, status: Some(Status::SuccessSent) });
}

#[tokio::test]
async fn the_same_call_made_again_stores_nothing_twice() {
    let db = Database::new().await;
    let messages = [Draft::default().new_message(&db.outbox), Draft::keyed("k", "one").new_message(&db.outbox)];
    for _ in 0..2 {
        assert_eq!(db.outbox.accept(&messages).await.unwrap(), [Accepted::New, Accepted::New]);
        assert_eq!(db.count("pending").await, 2);
    }
    // Nor does it bring back what is finished by now.
    for claimed in claim(&db.outbox, 10).await {
        db.outbox.settle(&[settlement(&claimed, 1, vec![attempt("primary", &[Class::Accepted])])]).await.unwrap();
    }
    assert_eq!(db.outbox.accept(&messages).await.unwrap(), [Accepted::New, Accepted::New]);
    assert_eq!(db.count("pending").await, 0);
    assert_eq!(db.count("outbox").await, 2);
}

#[tokio::test]
async fn what_was_accepted_is_read_back_as_it_was() {
    let db = Database::new().await;
    let mut new = Draft { recipients: 2, ..Draft::default() }.new_message(&db.outbox);
    let message = Arc::make_mut(&mut new.message);
    let email = &mut message.email;
    email.bcc = email.to.split_off(1);
    email.subject = "Счёт".into();
    email.headers.push(Header { name: "X-A".into(), value: "1".into() });
    email.attachments.push(Attachment {
        filename: "счёт.pdf".into(),
        content_type: "application/pdf".into(),
        content: (0..3_000_000u32).map(|n| n.wrapping_mul(2_654_435_761) as u8).collect(),
        content_id: Some("logo".into()),
    });
    let unknown = MessageId::new_at(db.outbox.clock().now());
    db.outbox.accept(std::slice::from_ref(&new)).await.unwrap();
    let read = db.outbox.contents(&[unknown, new.message.id]).await.unwrap();
    assert!(matches!(&read[0], (id, Err(OutboxError::Unreadable(_))) if *id == unknown));
    let (id, Ok(message)) = &read[1] else { panic!("{:?}", read[1]) };
    assert_eq!(*id, new.message.id);
    assert!(message.email == new.message.email);
    assert_eq!(message.trace, new.message.trace);
    assert_eq!(message.client, new.message.client);
    assert_eq!(message.correlation_id, new.message.correlation_id);
    assert_eq!(message.priority, new.message.priority);
    assert_eq!(message.unknown_outcome, new.message.unknown_outcome);
    assert!((message.accepted_at - new.message.accepted_at).abs() < time::Duration::MICROSECOND);
    // The columns worth searching by.
    assert_eq!(
        db.scalar::<Vec<String>>("select recipients from message").await,
        ["secret-0@example.org", "secret-1@example.org"]
    );
    assert_eq!(db.scalar::<Vec<String>>("select tags from message").await, ["a", "b"]);
}

#[tokio::test]
async fn content_of_a_newer_version_is_not_guessed_at() {
    let db = Database::new().await;
    let ids = Draft::default().accept(&db.outbox, 2).await;
    db.execute(&format!("update message set content_version = 99 where id = '{}'", ids[0])).await;
    let read = db.outbox.contents(&ids).await.unwrap();
    assert!(matches!(read[0].1, Err(OutboxError::NewerVersion { stored: 99, reads: 1 })), "it is not damaged");
    assert!(read[1].1.is_ok(), "the others are read all the same");
}

#[tokio::test]
async fn a_message_is_due_at_its_time_or_when_it_expires() {
    let db = Database::new().await;
    let later = Draft { wait: HOUR, ..Draft::default() };
    let expiring = Draft { wait: 2 * DAY, expire_in: Some(DAY), ..Draft::default() };
    let ids = [later.accept(&db.outbox, 1).await[0], expiring.accept(&db.outbox, 1).await[0]];
    let statuses = db.outbox.status(&ids, None).await.unwrap();
    let waits: Vec<i64> = statuses.iter().map(|s| (s.due_at.unwrap() - s.accepted_at).whole_hours()).collect();
    assert_eq!(waits, [1, 24]);
    assert!(claim(&db.outbox, 10).await.is_empty());
}

#[tokio::test]
async fn an_error_tells_no_values_of_the_row_it_is_about() {
    let db = Database::new().await;
    db.execute("alter table message add constraint no_secrets check (recipients[1] not like 'secret-%')").await;
    let new = Draft::default().new_message(&db.outbox);
    let error = db.outbox.accept(std::slice::from_ref(&new)).await.unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(matches!(error, OutboxError::Refused(_)), "{text}");
    assert!(text.contains("no_secrets"), "it names the constraint: {text}");
    assert!(!text.contains("secret-0@"), "{text}");

    // Postgres itself does tell them.
    let insert = "insert into message select (message).* from (select message from message) as copy";
    db.execute("alter table message drop constraint no_secrets").await;
    db.outbox.accept(std::slice::from_ref(&new)).await.unwrap();
    db.execute("alter table message add constraint no_secrets check (recipients[1] not like 'secret-%') not valid")
        .await;
    let raw = sqlx::query(insert).execute(&db.sql).await.unwrap_err();
    assert!(format!("{raw:?}").contains("secret-0@"), "{raw:?}");
}

#[tokio::test]
async fn a_value_that_postgres_cannot_keep_is_refused_without_being_quoted() {
    let db = Database::new().await;
    let mut new = Draft::default().new_message(&db.outbox);
    Arc::make_mut(&mut new.message).correlation_id = "secret\0".into();
    let error = db.outbox.accept(&[new]).await.unwrap_err();
    assert!(matches!(error, OutboxError::Refused(_)));
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[tokio::test]
async fn a_database_that_refuses_us_says_nothing_of_the_message() {
    let db = Database::new().await;
    let new = Draft::keyed("k", "one").new_message(&db.outbox);
    for refusal in ["alter table idempotency rename to keys", "alter table keys rename to idempotency"] {
        db.execute(refusal).await;
        let answer = db.outbox.accept(std::slice::from_ref(&new)).await;
        let is_there = refusal.ends_with("idempotency");
        assert_eq!(matches!(answer, Err(OutboxError::NotSetUp(_))), !is_there, "{answer:?}");
        assert_eq!(answer.is_ok(), is_there, "the same call may be made again");
    }
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable() {
    let db = Database::new().await;
    db.outbox.close().await;
    let error = db.outbox.accept(&[Draft::default().new_message(&db.outbox)]).await.unwrap_err();
    assert!(matches!(error, OutboxError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn connecting_to_nothing_fails_after_the_longest_wait_without_telling_the_password() {
    let settings = config::Database { acquire_timeout: Duration::from_millis(200), ..config::Database::default() };
    for url in ["postgres://user:hunter2@127.0.0.1:1/none", "postgres://user:hunter2@127.0.0.1:port/none"] {
        let error = Outbox::connect(&settings, &url.into()).await.err().unwrap();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert_eq!(matches!(error, OutboxError::Unavailable(_)), !url.contains("port"), "{error:?}");
    }
}

#[tokio::test]
async fn connections_that_the_server_closed_are_replaced() {
    let db = Database::new().await;
    Draft::default().accept(&db.outbox, 1).await;
    let closed: i64 = db
        .scalar(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where application_name = 'postrider' and datname = current_database()",
        )
        .await;
    assert!(closed > 0);
    Draft::default().accept(&db.outbox, 1).await;
    assert_eq!(claim(&db.outbox, 10).await.len(), 2);
}
