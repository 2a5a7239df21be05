-- Removes messages of one day that were kept long enough: content, history and key together.
--
--  $1, $2  the first id of the day and of the next
--  $3      how long a finished message is kept
--  $4      how long one that waits for a person is kept
--  $5      how many at most of either
with finished as materialized (
    select message_id as id
    from event
    where finished_at < now() - $3::interval
        and message_id >= $1
        and message_id < $2
    order by finished_at
    limit $5
    for update skip locked
),
unresolved as materialized (
    select id
    from pending
    where failed_at < now() - $4::interval
        and id >= $1
        and id < $2
    order by failed_at
    limit $5
    for update skip locked
),
old as materialized (
    select id
    from finished
    union all
    select id
    from unresolved
),
gone_pending as (
    delete from pending
    using unresolved
    where pending.id = unresolved.id
),
gone_message as (
    delete from message
    using old
    where message.id = old.id
        and message.id >= $1
        and message.id < $2
    returning message.id, message.client, message.idempotency_key
),
gone_event as (
    delete from event
    using old
    where event.message_id = old.id
        and event.message_id >= $1
        and event.message_id < $2
),
gone_key as (
    delete from idempotency
    using gone_message
    where idempotency.client = gone_message.client
        and idempotency.key = gone_message.idempotency_key
        and idempotency.message_id = gone_message.id
)
select
    (select count(*) from finished) as "finished!",
    (select count(*) from unresolved) as "unresolved!"
