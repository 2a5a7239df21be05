-- Removes idempotency keys of one day whose messages are gone, a batch in the order of the messages. Answers with the
-- last message it looked at, null if there was none.
--
--  $1, $2  the first id to look at, and the first of the next day
--  $3      how many at most
with next as materialized (
    select client, key, message_id
    from idempotency
    where message_id >= $1
        and message_id < $2
    order by message_id
    limit $3
),
gone as (
    delete from idempotency
    using next
    where idempotency.client = next.client
        and idempotency.key = next.key
        and idempotency.message_id = next.message_id
        and not exists (
            select
            from message
            where message.id = next.message_id
                and message.id >= $1
                and message.id < $2
        )
)
select message_id
from next
order by message_id desc
limit 1
