-- Removes messages of one day that have waited too long for a person: content, history and key together.
--
--  $1, $2  the first id of the day and of the next
--  $3      how long one that waits for a person is kept
--  $4      how many at most
with old as materialized (
    select id, status
    from pending
    where failed_at < now() - $3::interval
        and id >= $1
        and id < $2
    order by failed_at
    limit $4
    for update skip locked
),
gone_pending as (
    delete from pending
    using old
    where pending.id = old.id
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
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, -count(*)
    from old
    group by day_of(id), status
)
select count(*) as "count!"
from old
