//! The settings that the statements need hold whatever the server, the database or the role have as their default.

use std::{collections::BTreeSet, time::Duration};

use postrider::{
    config::{self, Pooling, Retention},
    delivery::{Class, ProviderName},
    message::RecipientIndex,
    outbox::{LaneId, Outbox, Removed, Retirement, Settled},
};

use super::{BOTH, Pooled, claim_of};
use crate::{
    outbox::{Draft, attempt, settlement},
    support::postgres::Database,
};

/// A database with the worst defaults, and tables of our names where its `search_path` leads.
async fn hostile() -> Database {
    let db = Database::new().await;
    db.execute(
        "create schema elsewhere;
        create table elsewhere.message (n integer);
        create table elsewhere.pending (n integer);
        create table elsewhere.event (n integer);
        create table elsewhere.lane (n integer);
        create table elsewhere._sqlx_migrations (n integer);
        do $$
        declare setting text;
        begin
            foreach setting in array array[
                'search_path = elsewhere', 'plan_cache_mode = force_generic_plan', 'synchronous_commit = off',
                'default_transaction_isolation = serializable', 'jit = on', 'timezone = ''Asia/Kathmandu''',
                'datestyle = ''SQL, DMY''', 'intervalstyle = sql_standard', 'bytea_output = escape',
                'default_toast_compression = pglz'
            ] loop
                execute format('alter database %I set %s', current_database(), setting);
            end loop;
        end $$",
    )
    .await;
    db
}

/// Notes what is in force whenever a statement writes.
async fn note_settings(db: &Database, schema: &str) {
    let mut sql = format!(
        "create table {schema}.noted (setting text, value text, by text);
        create function {schema}.note() returns trigger language plpgsql as $$
        begin
            insert into {schema}.noted
            select name, current_setting(name), tg_op || ' ' || tg_table_name
            from unnest(array['search_path', 'synchronous_commit', 'transaction_isolation', 'plan_cache_mode',
                'enable_bitmapscan', 'enable_seqscan', 'jit', 'idle_in_transaction_session_timeout']) as name;
            return null;
        end $$;"
    );
    for table in ["lane", "pending", "message", "event", "tally", "idempotency"] {
        sql += &format!(
            "create trigger note before insert or update or delete on {schema}.{table}
            for each statement execute function {schema}.note();"
        );
    }
    db.execute(&sql).await;
}

/// Everything that writes.
async fn write(outbox: &Outbox) {
    Draft::keyed("a key", "request").accept(outbox, 1).await;
    Draft::default().accept(outbox, 3).await;
    let claimed = claim_of(outbox, "default", 10).await;
    assert_eq!(claimed.len(), 4);
    let next = ProviderName::new("secondary");
    let tried = [attempt("primary", &[Class::Unavailable])];
    outbox.hand_over(&claimed[0].lease, 1, &tried, &[RecipientIndex(0)], &next).await.unwrap();
    outbox.renew(&[claimed[0].lease], Duration::from_secs(60)).await.unwrap();
    outbox.release(&[claimed[1].lease]).await.unwrap();
    let settle = [Class::Accepted, Class::MessageRejected];
    for (one, class) in claimed[2..].iter().zip(settle) {
        let settlement = settlement(one, 1, vec![attempt("primary", &[class])]);
        assert_eq!(outbox.settle(std::slice::from_ref(&settlement)).await.unwrap(), [Settled::Done]);
    }
    let late = settlement(&claimed[1], 1, vec![attempt("late", &[Class::Deferred])]);
    assert_eq!(outbox.settle(&[late]).await.unwrap(), [Settled::Late]);
    let lanes: Vec<LaneId> = outbox.look().await.unwrap().into_iter().map(|seen| seen.lane.id).collect();
    outbox.sweep(&lanes).await.unwrap();
    let at_once = Retention { finished: Duration::ZERO, ..Retention::default() };
    outbox.clock().correct(2 * time::Duration::DAY);
    let removed = Retirement::new(outbox.clone(), at_once).turn().await.unwrap();
    assert_eq!(removed, Removed { finished: 1, ..Removed::default() });
    outbox.measure_clock().await.unwrap();
}

/// The values of a setting with which statements wrote.
async fn noted(db: &Database, schema: &str, setting: &str) -> Vec<String> {
    db.scalar(&format!(
        "select array_agg(distinct value order by value) from {schema}.noted where setting = '{setting}'"
    ))
    .await
}

async fn hold(seen: &Database, pooling: Pooling) {
    // Through the same door: the tables too are made under those defaults.
    let settings = config::Database { schema: "mail".into(), ..seen.settings.clone() };
    let outbox = Outbox::connect(&settings, &seen.url).await.unwrap();
    outbox.migrate().await.unwrap();
    assert_eq!(outbox.missing_migrations().await.unwrap(), 0);
    outbox.ensure_days(1).await.unwrap();
    tables_are_as_they_should_be(seen).await;
    note_settings(seen, "mail").await;
    write(&outbox).await;
    outbox.close().await;

    assert_eq!(noted(seen, "mail", "search_path").await, ["mail, pg_temp"]);
    assert_eq!(noted(seen, "mail", "synchronous_commit").await, ["on"]);
    assert_eq!(noted(seen, "mail", "transaction_isolation").await, ["read committed"]);
    assert_eq!(noted(seen, "mail", "enable_bitmapscan").await, ["off"]);
    assert_eq!(noted(seen, "mail", "jit").await, ["off"]);
    // Who vanishes within a transaction keeps its rows from others no longer.
    assert_eq!(noted(seen, "mail", "idle_in_transaction_session_timeout").await, ["10s"]);
    // What is done all the time keeps its plan where a session can, and then never reads a table as a whole.
    let plans = "select array_agg(distinct plan.value || ' ' || scan.value order by plan.value || ' ' || scan.value)
        from mail.noted as plan
        join mail.noted as scan using (by)
        where plan.setting = 'plan_cache_mode' and scan.setting = 'enable_seqscan' and by = ";
    let fresh = "force_custom_plan on".to_owned();
    let kept = match pooling {
        Pooling::Session => "force_generic_plan off".to_owned(),
        Pooling::Transaction => fresh.clone(),
    };
    let plans_of = async |by: &str| seen.scalar::<Vec<String>>(&format!("{plans} '{by}'")).await;
    assert_eq!(plans_of("INSERT message").await, [kept]);
    assert_eq!(plans_of("INSERT lane").await, [fresh]);
    let written: Vec<String> = seen.scalar("select array_agg(distinct by) from mail.noted").await;
    let written: BTreeSet<&str> = written.iter().map(String::as_str).collect();
    for by in ["INSERT idempotency", "UPDATE pending", "DELETE pending", "INSERT event", "INSERT tally"] {
        assert!(written.contains(by), "{by} is not in {written:?}");
    }
}

async fn tables_are_as_they_should_be(db: &Database) {
    let days = "pg_class join pg_inherits on inhrelid = pg_class.oid
        where relkind = 'r' and relnamespace = 'mail'::regnamespace and relname ~ ";
    let made = db.count(&format!("{days} '^message_'")).await;
    assert_eq!(made, 3);
    let with = |name: &str, option: &str| format!("{days} '^{name}_' and '{option}' = any (reloptions)");
    let no_vacuum_for_inserts = "autovacuum_vacuum_insert_threshold=-1";
    for (name, option) in
        [("message", "toast_tuple_target=8160"), ("message", no_vacuum_for_inserts), ("event", no_vacuum_for_inserts)]
    {
        assert_eq!(db.count(&with(name, option)).await, made, "{name} {option}");
    }
    let lz4 = "pg_attribute where attname = 'content' and attcompression = 'l' and attrelid in
        (select oid from pg_class where relnamespace = 'mail'::regnamespace and relname ~ '^message')";
    assert_eq!(db.count(lz4).await, made + 1, "the parent as well");
    let toast = "pg_class as content join pg_class as toast on toast.oid = content.reltoastrelid
        where content.relnamespace = 'mail'::regnamespace and content.relname ~ '^message_'
            and toast.reloptions = '{autovacuum_vacuum_insert_threshold=-1}'";
    assert_eq!(db.count(toast).await, made);
    let options: Vec<String> = db.scalar("select reloptions from pg_class where oid = 'mail.pending'::regclass").await;
    for option in [
        "autovacuum_vacuum_scale_factor=0",
        "autovacuum_vacuum_threshold=2000",
        "autovacuum_vacuum_cost_delay=0",
        "vacuum_truncate=false",
    ] {
        assert!(options.iter().any(|it| it == option), "{option} is not in {options:?}");
    }
    assert_eq!(db.count("pg_extension").await, 1, "plpgsql, which every database has");
}

#[tokio::test]
async fn what_the_statements_need_holds_whatever_the_defaults() {
    for pooling in BOTH {
        let mut db = hostile().await;
        db.settings.pooling = pooling;
        hold(&db, pooling).await;
    }
}

#[tokio::test]
async fn it_holds_behind_a_pooler() {
    for pooling in BOTH {
        let Some(pooled) = Pooled::over(pooling, hostile().await).await else { return };
        hold(&pooled, pooling).await;
    }
}
