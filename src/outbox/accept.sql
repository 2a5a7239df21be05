-- Stores messages, each only if its idempotency key is new; answers with the ids of those that are.
--
-- Keys first and sorted: two calls at once wait for each other's keys in one order, and the second sees that it lost.
-- A row that is there already is this very call made again after its answer was lost: nothing is stored twice.
with input as materialized (
    select
        id,
        client,
        accepted_at,
        chain,
        priority::priority as priority,
        unknown_outcome::unknown_outcome as unknown_outcome,
        sender,
        string_to_array(recipients, E'\n') as recipients,
        string_to_array(tags, E'\n') as tags,
        document_type,
        correlation_id,
        traceparent,
        tracestate,
        key,
        fingerprint,
        content,
        lane,
        send_at,
        expire_at,
        give_up_at
    from unnest(
        $1::uuid[],
        $2::text[],
        $3::timestamptz[],
        $4::text[],
        $5::text[],
        $6::text[],
        $7::text[],
        $8::text[],
        $9::text[],
        $10::text[],
        $11::text[],
        $12::text[],
        $13::text[],
        $14::text[],
        $15::bytea[],
        $16::bytea[],
        $17::integer[],
        $18::timestamptz[],
        $19::timestamptz[],
        $20::timestamptz[]
    ) as input (
        id,
        client,
        accepted_at,
        chain,
        priority,
        unknown_outcome,
        sender,
        recipients,
        tags,
        document_type,
        correlation_id,
        traceparent,
        tracestate,
        key,
        fingerprint,
        content,
        lane,
        send_at,
        expire_at,
        give_up_at
    )
),
won as (
    insert into idempotency (client, key, message_id, fingerprint)
    select client, key, id, fingerprint
    from input
    where key is not null
    order by client, key
    on conflict do nothing
    returning message_id
),
fresh as materialized (
    select id
    from input
    where key is null
    union all
    select message_id
    from won
),
stored as (
    insert into message (
        id,
        client,
        accepted_at,
        chain,
        priority,
        unknown_outcome,
        sender,
        recipients,
        tags,
        document_type,
        correlation_id,
        traceparent,
        tracestate,
        idempotency_key,
        size_bytes,
        content_version,
        content
    )
    select
        input.id,
        input.client,
        input.accepted_at,
        input.chain,
        input.priority,
        input.unknown_outcome,
        input.sender,
        input.recipients,
        input.tags,
        input.document_type,
        input.correlation_id,
        input.traceparent,
        input.tracestate,
        input.key,
        length(input.content),
        $21::smallint,
        input.content
    from input
    join fresh on fresh.id = input.id
    on conflict do nothing
    returning id
),
queued as (
    insert into pending (id, lane, status, due_at, expire_at, give_up_at, hold, size_bytes)
    select
        input.id,
        input.lane,
        'NOT_YET_SENT',
        least(input.send_at, input.expire_at, input.give_up_at),
        input.expire_at,
        input.give_up_at,
        input.unknown_outcome = 'HOLD',
        length(input.content)
    from input
    join stored on stored.id = input.id
    returning id, status
),
counted as (
    insert into tally (day, status, n)
    select day_of(id), status, count(*)
    from queued
    group by day_of(id), status
)
select id as "id!"
from fresh
