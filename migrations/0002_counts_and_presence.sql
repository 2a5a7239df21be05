-- Counts by status that cost nothing to ask for, who is there, and how large a message is.
--
-- Why: counting rows takes longer the more messages there are; each change of status leaves a difference here instead.
-- A dispatcher that claims has to know how much memory the contents will take, which are in another table. And who
-- shares an outbox with others has to know of them.
--
-- Safe while an older version runs, with two limits: what that one changes from now on is missing in the counts, until
-- the day concerned is retired; and accepts wait while the index on idempotency is built.

-- By how many the number of messages of a day (that of their ids) in a status has changed. Only ever appended to by
-- those who change a status, in the same statement; what there is of a status is the sum. From time to time the older
-- rows are replaced by their sums, the opening balance.
create table tally (
    day date not null,
    status status not null,
    n bigint not null,
    -- The transaction that wrote it. Of an opening balance: one below which nothing else is left, nor will come.
    xact xid8 not null default pg_current_xact_id(),
    is_opening boolean not null default false
) with (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0,
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = false
);

-- By which the rows since the last opening balance are found. While somebody's snapshot keeps replaced rows from being
-- cleaned away they would be read again and again otherwise.
create index tally_xact on tally (xact);

create index tally_opening on tally (xact) where is_opening;

-- Below this there is no row left. A balance younger than every transaction comes from another server, from which the
-- database was copied: it says nothing about the transactions of this one.
create function tally_from() returns xid8
language sql stable
set search_path from current
set enable_seqscan = off
as $$
    select coalesce(
        (
            select xact
            from tally
            where is_opening
                and xact < pg_snapshot_xmax(pg_current_snapshot())
            order by xact desc
            limit 1
        ),
        '0'
    )
$$;

-- How many messages there are of each day in each status.
create function tally_sum() returns table (day date, status status, n bigint)
language sql stable
set search_path from current
set enable_seqscan = off
as $$
    select day, status, sum(n)::bigint
    from tally
    where xact >= (select tally_from())
    group by day, status
    having sum(n) <> 0
$$;

-- The day of a message's id in UTC: its first 48 bits are milliseconds since 1970.
create function day_of(id uuid) returns date
language sql immutable strict parallel safe
as $$
    select date '1970-01-01' + (
        ('x' || left(replace(id::text, '-', ''), 12))::bit(48)::bigint / 86400000
    )::integer
$$;

insert into tally (day, status, n)
select day_of(id), status, count(*)
from pending
group by day_of(id), status
union all
select day_of(message_id), status, count(*)
from event
where status is not null
group by day_of(message_id), status;

-- The processes that share this outbox, each for as long as it says so now and then.
create table dispatcher (
    id uuid primary key,
    -- When it started, and when it last said that it is there.
    started_at timestamptz not null,
    seen_at timestamptz not null,
    version text not null,
    -- What it does: 'api', 'dispatch', 'maintain'.
    roles text[] not null,
    -- The chains of its settings.
    chains text[] not null
) with (vacuum_truncate = false);

-- How many bytes its content has.
alter table pending add column size_bytes bigint not null default 0;

-- Keys are removed after the messages of their day.
create index idempotency_message on idempotency (message_id);
