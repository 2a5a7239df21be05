-- Stores messages, each only if its idempotency key is new; answers with the ids of those that are.
--
-- Keys first and sorted: two calls at once wait for each other's keys in one order, and the second sees that it lost.
-- A row that is there already is this very call made again after its answer was lost: nothing is stored twice.
--
-- One that comes with a token is stored already claimed by the process that brings it.
--
-- Of an id whose time is too far from now nothing is stored: a wrong clock made it, and it would lie in a wrong day.
--
--  $1 … $20   the messages
--  $21        the version of the contents
--  $22, $23   for those that are claimed the token and the provider that is asked first
--  $24        how long their leases last
--  $25        how far the time of an id may be from now
with input as materialized (
    select
        nth,
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
        lane,
        send_at,
        expire_at,
        give_up_at,
        token,
        provider
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
        $17::integer[],
        $18::timestamptz[],
        $19::timestamptz[],
        $20::timestamptz[],
        $22::bigint[],
        $23::text[]
    ) with ordinality as input (
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
        lane,
        send_at,
        expire_at,
        give_up_at,
        token,
        provider,
        nth
    )
    where accepted_at between now() - $25::interval and now() + $25::interval
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
        length(body.content),
        $21::smallint,
        body.content
    from input
    join fresh on fresh.id = input.id
    -- Taken from the array at the very end, so that no content is copied from step to step.
    cross join lateral (
        select ($16::bytea[])[input.nth] as content
    ) as body
    on conflict do nothing
    returning id, size_bytes
),
queued as (
    insert into pending (
        id,
        lane,
        status,
        due_at,
        expire_at,
        give_up_at,
        hold,
        size_bytes,
        token,
        provider,
        begun_at
    )
    select
        input.id,
        input.lane,
        case when input.token is null then 'NOT_YET_SENT' else 'IN_PROCESS' end::status,
        case
            when input.token is null then least(input.send_at, input.expire_at, input.give_up_at)
            else now() + $24::interval
        end,
        input.expire_at,
        input.give_up_at,
        input.unknown_outcome = 'HOLD',
        stored.size_bytes,
        input.token,
        input.provider,
        -- Under RESEND sending may begin at once; under HOLD that is put on record apart, before the first byte.
        case when input.token is not null and input.unknown_outcome <> 'HOLD' then now() end
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
