-- The outbox: what was accepted, what is still to be done with it, and what happened to it.
--
-- Why: the first tables. Content and history are partitioned by day, so that retention can drop whole days; what is
-- still to be done is a table of its own without content, so that the table that every claim and settle changes stays
-- small.
--
-- Safe while an older version runs: there is none; everything here is new. Later migrations only add, so that an older
-- version goes on working beside a newer one.
--
-- The tables of the days are not made here but by the service, ahead of time: see `days.rs`.

-- The words of the domain, as in Rust, in logs and in metrics. As enums they take four bytes and refuse a word that no
-- version knows. `alter type … add value` adds one without a rewrite.
create type status as enum (
    'NOT_YET_SENT',
    'IN_PROCESS',
    'REQUIRED_RESEND',
    'FAILED_NOT_RETRYABLE',
    'FAILED_RETRIES_EXHAUSTED',
    'FAILED_OUTCOME_UNKNOWN',
    'EXPIRED',
    'CANCELED',
    'SUCCESS_SENT'
);

create type class as enum (
    'ACCEPTED',
    'RECIPIENT_REJECTED',
    'MESSAGE_REJECTED',
    'UNFIT_HERE',
    'DEFERRED',
    'UNAVAILABLE',
    'THROTTLED',
    'QUOTA_USED_UP',
    'MISCONFIGURED',
    'OUTCOME_UNKNOWN'
);

create type scope as enum (
    'RECIPIENT',
    'RECIPIENT_AT_PROVIDER',
    'MESSAGE',
    'MESSAGE_AT_PROVIDER',
    'PROVIDER',
    'ACCOUNT',
    'SENDER_DOMAIN',
    'WIRE'
);

create type event_kind as enum (
    'ATTEMPT',
    'TAKEOVER',
    'CANCELED',
    'EXPIRED',
    'RETRIED',
    'LATE_OUTCOME',
    'GAVE_UP',
    'REPORTED'
);

create type priority as enum ('HIGH', 'NORMAL', 'BULK');

create type unknown_outcome as enum ('RESEND', 'HOLD');

-- Messages that wait in one line. Made on first use, never removed: there are as many as clients, chains and
-- priorities.
create table lane (
    id integer generated always as identity primary key,
    chain text not null,
    priority priority not null,
    client text not null,
    paused boolean not null default false,
    unique (chain, priority, client)
);

-- What is to be sent. Written once, never changed. Partitioned by the day of the id (a UUIDv7), without a default
-- partition (it would have to be searched, under a lock that stops everybody, whenever a day is attached) and without
-- foreign keys (they would make every insert lock a row elsewhere, and forbid dropping a day).
--
-- The columns beside the content are those worth searching by. The content is a protobuf,
-- `postrider.stored.v1.Content`, in the version that `content_version` says.
create table message (
    id uuid primary key,
    client text not null,
    accepted_at timestamptz not null,
    chain text not null,
    priority priority not null,
    unknown_outcome unknown_outcome not null,
    sender text not null,
    recipients text[] not null,
    tags text[] not null,
    document_type text,
    correlation_id text not null,
    traceparent text not null,
    tracestate text not null,
    idempotency_key text,
    size_bytes bigint not null,
    content_version smallint not null,
    content bytea compression lz4 not null
) partition by range (id);

-- What is still to be done, by a machine (`due_at`) or by a person (`failed_at`). Every claim and settle changes it, so
-- it is narrow.
--
-- `due_at` alone decides when a machine may take a row: for one that waits it is the next try or the expiry, whichever
-- is earlier, for one that is taken it is the end of the lease. It is one column, in one index, on purpose: a lease in a
-- second, unindexed column would leave dead index entries exactly where every claim begins to read.
create table pending (
    id uuid primary key,
    due_at timestamptz,
    failed_at timestamptz,
    expire_at timestamptz,
    give_up_at timestamptz not null,
    -- When the first attempt of unknown outcome began, if one stands in the history.
    unknown_since timestamptz,
    -- Since when the present lease may have sent something; null: on record that it has not begun.
    begun_at timestamptz,
    last_attempt_at timestamptz,
    -- What the present claim is recognised by; every write-back states it.
    token bigint,
    lane integer not null,
    status status not null,
    -- Rounds spent, since an operator last asked for a retry.
    rounds integer not null default 0,
    -- Attempts in the history, a takeover of what had begun included.
    attempts integer not null default 0,
    last_class class,
    -- Leave it to a person when nobody can know whether it was sent.
    hold boolean not null,
    -- Ask `provider` before the others: it deferred the message, or may have it.
    ask_first boolean not null default false,
    -- A recipient was accepted in an earlier round.
    accepted_before boolean not null default false,
    cancel_requested boolean not null default false,
    -- Null: all.
    open_recipients smallint[],
    provider text,
    last_provider text,
    last_code text,
    provider_message_id text,

    constraint pending_is_not_finished
        check (status not in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT')),
    constraint pending_waits_for_a_machine_or_a_person
        check ((due_at is null) = (failed_at is not null)),
    constraint pending_fails_to_a_person
        check ((failed_at is not null)
            = (status in ('FAILED_NOT_RETRYABLE', 'FAILED_RETRIES_EXHAUSTED', 'FAILED_OUTCOME_UNKNOWN'))),
    constraint pending_in_process_under_a_lease
        check ((status = 'IN_PROCESS') = (token is not null)),
    constraint pending_in_process_names_a_provider
        check (status <> 'IN_PROCESS' or provider is not null),
    constraint pending_begun_in_process
        check (begun_at is null or status = 'IN_PROCESS'),
    constraint pending_not_yet_sent_is_untried
        check (status <> 'NOT_YET_SENT' or (attempts = 0 and rounds = 0 and unknown_since is null)),
    constraint pending_tried_is_not_untried
        check (status <> 'REQUIRED_RESEND' or attempts > 0),
    constraint pending_asks_somebody_first
        check (not ask_first or provider is not null),
    constraint pending_has_open_recipients
        check (due_at is null or open_recipients is null or cardinality(open_recipients) > 0),
    constraint pending_remembers_its_last_attempt
        check ((attempts > 0) = (last_attempt_at is not null)
            and (attempts > 0) = (last_provider is not null)
            and (attempts > 0) = (last_class is not null)),
    constraint pending_counts_from_zero
        check (rounds >= 0 and attempts >= 0)
) with (
    -- Its rows live for seconds: cleaned by a fixed number of dead ones, at full speed, and never shortened, since that
    -- takes a lock that stops everybody and the space is needed again at once.
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 20000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 20000,
    vacuum_truncate = false
);

-- What every claim reads.
create index pending_due on pending (lane, due_at) where due_at is not null;

-- What retention reads: few rows, and none on the way of a message that is sent.
create index pending_failed on pending (failed_at) where failed_at is not null;

-- The order of a message's history. One sequence for all: events of one message are written under the lock of its row.
create sequence event_ordinal;

-- What happened. Only ever appended to. Partitioned like `message`, by the day of the message.
--
-- The one event that finished a message holds its final status and what the row in `pending` held of it; an outcome
-- that comes later may still follow.
create table event (
    message_id uuid not null,
    ordinal bigint not null default nextval('event_ordinal'),
    at timestamptz not null,
    kind event_kind not null,
    round integer,
    class class,
    scope scope,
    duration_us bigint,
    provider text,
    code text,
    -- The provider's words: they may hold addresses.
    detail text,
    provider_message_id text,
    -- The recipients that were offered, if class, scope, code and detail hold for each of them. Null: all.
    offered smallint[],
    -- Else the verdict for each: [{"recipient", "class", "scope", "code", "detail"}].
    verdicts jsonb,

    status status,
    finished_at timestamptz,
    rounds integer,
    attempts integer,
    -- Of the last attempt, where the event that finished the message is none itself.
    last_attempt_at timestamptz,
    last_class class,
    last_provider text,
    last_code text,
    last_provider_message_id text,

    primary key (message_id, ordinal),
    constraint event_finishes_or_not
        check ((status is null) = (finished_at is null)
            and (status is null) = (rounds is null)
            and (status is null) = (attempts is null)),
    constraint event_finishes_with_a_final_status
        check (status in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT')),
    constraint event_of_an_attempt_tells_its_outcome
        check (kind not in ('ATTEMPT', 'LATE_OUTCOME') or (provider is not null and class is not null)),
    constraint event_with_verdicts_one_way
        check (offered is null or verdicts is null)
) partition by range (message_id);

-- A message is finished once.
create unique index event_final on event (message_id) where status is not null;

-- What retention reads.
create index event_finished on event (finished_at) where finished_at is not null;

-- The caller's keys, so that a call made twice is one message. A key goes with its message, never before.
create table idempotency (
    client text not null,
    key text not null,
    message_id uuid not null,
    -- What identifies the request, behind a version.
    fingerprint bytea not null,
    primary key (client, key)
);

-- The outbox as people see it: one row a message, for as long as it is kept.
create view outbox as
select
    message.id,
    message.client,
    coalesce(pending.status, final.status) as status,
    message.accepted_at,
    pending.due_at,
    coalesce(pending.attempts, final.attempts) as attempts,
    coalesce(pending.rounds, final.rounds) as rounds,
    coalesce(pending.last_provider, final.last_provider, final.provider) as last_provider,
    coalesce(pending.last_class, final.last_class, final.class) as last_outcome,
    coalesce(pending.last_code, final.last_code, final.code) as last_code,
    coalesce(pending.provider_message_id, final.last_provider_message_id, final.provider_message_id)
        as provider_message_id,
    coalesce(pending.last_attempt_at, final.last_attempt_at, case when final.provider is not null then final.at end)
        as last_attempt_at,
    final.finished_at,
    message.correlation_id,
    message.document_type
from message
left join pending
    on pending.id = message.id
left join event as final
    on final.message_id = message.id
    and final.status is not null;
