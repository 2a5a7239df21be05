//! Where messages stand, in one statement however many they are.

use postrider::{
    delivery::{Class, Status},
    message::{ClientId, MessageId},
    outbox::{Accepted, EventKind, Settlement, StatusVersion},
};

use super::{Draft, attempt, claim, let_leases_run_out, let_pauses_pass, request, settlement};
use crate::support::{postgres::Database, statements::StatementCounter};

#[tokio::test]
async fn a_status_is_told_to_the_messages_client_alone_and_in_the_order_asked_for() {
    let db = Database::new().await;
    let mine = Draft::default().accept(&db.outbox, 2).await;
    let theirs = Draft { client: "other", ..Draft::default() }.accept(&db.outbox, 1).await[0];
    let unknown = MessageId::new_at(db.outbox.clock().now());
    let ids = [mine[1], theirs, unknown, mine[0]];
    let told = |client: Option<&'static str>| {
        let db = &db;
        async move {
            let client = client.map(ClientId::new);
            let statuses = db.outbox.status(&ids, client.as_ref()).await.unwrap();
            statuses.iter().map(|status| status.id).collect::<Vec<_>>()
        }
    };
    assert_eq!(told(Some("shop")).await, [mine[1], mine[0]]);
    assert_eq!(told(Some("other")).await, [theirs]);
    assert_eq!(told(Some("nobody")).await, []);
    assert_eq!(told(None).await, [mine[1], theirs, mine[0]]);
}

#[tokio::test]
async fn a_status_tells_what_was_accepted() {
    let db = Database::new().await;
    let new = Draft { recipients: 3, ..Draft::default() }.new_message(&db.outbox);
    assert_eq!(db.outbox.accept(std::slice::from_ref(&new)).await.unwrap(), [Accepted::New]);
    let status = db.outbox.status(&[new.message.id], None).await.unwrap().remove(0);
    assert_eq!(status.status, Status::NotYetSent);
    assert_eq!(status.correlation_id, "order-7");
    assert_eq!(status.document_type.as_deref(), Some("INVOICE"));
    assert_eq!(status.chain, "default");
    let recipients: Vec<_> = new.message.email.recipients().map(|(_, mailbox)| mailbox.address.clone()).collect();
    assert!(status.recipients == recipients);
    assert_eq!((status.provider, status.finished_at, status.events.len()), (None, None, 0));
}

#[tokio::test]
async fn the_number_of_statements_does_not_grow_with_the_messages() {
    let db = Database::new().await;
    let statements = StatementCounter::start();
    for count in [1, 100] {
        // The lane, met once, costs its own.
        Draft::default().accept(&db.outbox, 1).await;
        db.execute("truncate pending").await;
        statements.take();
        Draft::default().accept(&db.outbox, count).await;
        assert_eq!(statements.take(), 1, "accept of {count}");
        let request = request(&db.outbox, 200).await;
        assert_eq!(statements.take(), 1, "look");
        let claimed = db.outbox.claim(&request).await.unwrap().messages;
        assert_eq!((claimed.len(), statements.take()), (count, 1), "claim");
        let ids: Vec<MessageId> = claimed.iter().map(|one| one.lease.id).collect();
        let contents = db.outbox.contents(&ids).await.unwrap();
        assert!(contents.iter().all(|(_, content)| content.is_ok()));
        assert_eq!(statements.take(), 1, "contents of {count}");
        let leases: Vec<_> = claimed.iter().map(|one| one.lease).collect();
        db.outbox.renew(&leases, super::HOUR).await.unwrap();
        assert_eq!(statements.take(), 1, "renewal of {count}");
        let class = |nth: usize| if nth.is_multiple_of(2) { Class::Accepted } else { Class::Unavailable };
        let settlements: Vec<Settlement> = claimed
            .iter()
            .enumerate()
            .map(|(nth, one)| settlement(one, 1, vec![attempt("primary", &[class(nth)])]))
            .collect();
        db.outbox.settle(&settlements).await.unwrap();
        let taken = statements.take();
        assert!(
            taken <= 4,
            "settle of {count}: {taken}, one for what went well and a transaction of three for the rest"
        );
        assert_eq!(db.outbox.status(&ids, None).await.unwrap().len(), count);
        assert_eq!(statements.take(), 1, "status of {count}");
    }
}

#[tokio::test]
async fn a_status_with_twenty_attempts_is_one_statement() {
    let db = Database::new().await;
    let ids = Draft { recipients: 2, ..Draft::default() }.accept(&db.outbox, 3).await;
    for _ in 0..10 {
        db.execute("update pending set rounds = 0").await;
        let_pauses_pass(&db).await;
        for one in claim(&db.outbox, 10).await {
            let attempts = vec![attempt("primary", &[Class::Unavailable; 2]), attempt("second", &[Class::Deferred; 2])];
            db.outbox.settle(&[settlement(&one, 2, attempts)]).await.unwrap();
        }
    }
    let statements = StatementCounter::start();
    let statuses = db.outbox.status(&ids, None).await.unwrap();
    assert_eq!(statements.take(), 1);
    for status in &statuses {
        assert_eq!((status.events.len(), status.recipients.len()), (20, 2));
        assert!(status.events.is_sorted_by_key(|event| event.round.is_none()));
        let providers: Vec<_> = status.events.iter().map(|event| event.provider.as_ref().unwrap().as_str()).collect();
        assert_eq!(providers, ["primary", "second"].repeat(10), "oldest first");
    }
}

#[tokio::test]
async fn the_history_of_a_message_is_told_in_its_order() {
    let db = Database::new().await;
    let id = Draft::default().accept(&db.outbox, 1).await[0];
    claim(&db.outbox, 1).await;
    let_leases_run_out(&db).await;
    let one = claim(&db.outbox, 1).await.remove(0);
    db.outbox.settle(&[settlement(&one, 1, vec![attempt("primary", &[Class::Accepted])])]).await.unwrap();
    let status = db.outbox.status(&[id], None).await.unwrap().remove(0);
    let kinds: Vec<EventKind> = status.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::Takeover, EventKind::Attempt]);
    assert_eq!((status.priority, status.provider, status.due_at), (None, None, None), "it waits for nothing");
}

#[tokio::test]
async fn a_status_opens_the_days_of_its_messages_and_no_other() {
    let db = Database::new().await;
    db.outbox.ensure_days(100).await.unwrap();
    let mut ids = Draft::default().accept(&db.outbox, 2).await;
    ids.push(Draft { age: super::DAY, ..Draft::default() }.accept(&db.outbox, 1).await[0]);
    let tomorrow = MessageId::new_at(db.outbox.clock().now() + super::DAY);
    // Whoever opens a table must not wait for it.
    db.execute("do $$ begin execute format('alter database %I set lock_timeout = 1', current_database()); end $$")
        .await;
    let hasty = db.another_process().await;
    let mut hold = db.sql.begin().await.unwrap();
    let all_but_theirs = "do $$
        declare
            leaf record;
        begin
            for leaf in
                select relname from pg_class
                where relispartition and relkind = 'r'
                    and right(relname, 8)::date not in (current_date, current_date - 1)
            loop
                execute format('lock table %I in access exclusive mode', leaf.relname);
            end loop;
        end $$";
    sqlx::raw_sql("set local lock_timeout = 0; set local time zone 'UTC'").execute(&mut *hold).await.unwrap();
    sqlx::raw_sql(all_but_theirs).execute(&mut *hold).await.unwrap();
    assert_eq!(hasty.status(&ids, None).await.unwrap().len(), 3);
    let error = hasty.status(&[ids[0], tomorrow], None).await.unwrap_err();
    assert!(error.to_string().contains("55P03"), "{error}");
    assert_eq!(hasty.cancel(&ids, None).await.unwrap(), [Some(Status::Canceled); 3]);
}

#[tokio::test]
async fn only_what_has_changed_since_it_was_seen_is_told_again() {
    let db = Database::new().await;
    let ids = Draft::default().accept(&db.outbox, 4).await;
    let nobodys = Draft::default().new_message(&db.outbox).message.id;
    let mut watched: Vec<(MessageId, Option<StatusVersion>)> =
        ids.iter().chain([&nobodys]).map(|id| (*id, None)).collect();
    let told = changes(&db, &mut watched).await;
    assert_eq!(told, ids, "what was never seen is told, and what is not there is not");
    assert_eq!(changes(&db, &mut watched).await, []);

    let claimed = claim(&db.outbox, 2).await;
    let taken: Vec<MessageId> = claimed.iter().map(|one| one.lease.id).collect();
    let mut told = changes(&db, &mut watched).await;
    told.sort_by_key(|id| taken.iter().position(|taken| taken == id));
    assert_eq!(told, taken);
    db.outbox.renew(&[claimed[0].lease], super::HOUR).await.unwrap();
    assert_eq!(changes(&db, &mut watched).await, [], "a lease that is renewed is no news");
    db.outbox.settle(&[settlement(&claimed[0], 1, vec![attempt("primary", &[Class::Accepted])])]).await.unwrap();
    assert_eq!(changes(&db, &mut watched).await, [taken[0]]);
    db.outbox.release(&[claimed[1].lease]).await.unwrap();
    assert_eq!(changes(&db, &mut watched).await, [taken[1]]);
    assert_eq!(changes(&db, &mut watched).await, []);
}

/// The messages that have changed, with the note that they were seen.
async fn changes(db: &Database, watched: &mut [(MessageId, Option<StatusVersion>)]) -> Vec<MessageId> {
    let changes = db.outbox.changes(watched).await.unwrap();
    let mut told = Vec::new();
    for (status, version) in changes {
        let (_, seen) = watched.iter_mut().find(|(id, _)| *id == status.id).unwrap();
        *seen = Some(version);
        told.push(status.id);
    }
    told
}
