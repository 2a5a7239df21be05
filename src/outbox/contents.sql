-- Reads messages. One look-up an id, each in its own day: a plain `id = any (…)` would visit every day for every id.
--
--  $1      the messages
--  $2, $3  the least and the greatest id, so that only the days between them are looked at
select
    message.id as "id!",
    message.client as "client!",
    message.accepted_at as "accepted_at!",
    message.priority::text as "priority!",
    message.unknown_outcome::text as "unknown_outcome!",
    message.document_type,
    message.correlation_id as "correlation_id!",
    message.traceparent as "traceparent!",
    message.tracestate as "tracestate!",
    message.content_version as "content_version!",
    message.content as "content!"
from unnest($1::uuid[]) as wanted (id)
cross join lateral (
    select
        id,
        client,
        accepted_at,
        priority,
        unknown_outcome,
        document_type,
        correlation_id,
        traceparent,
        tracestate,
        content_version,
        content
    from message
    where message.id = wanted.id
        and message.id >= $2
        and message.id <= $3
    limit 1
) as message
