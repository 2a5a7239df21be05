-- Stores one message that came without an idempotency key; answers with its id. The same as `accept.sql`, which stores any
-- number: a caller who is alone waits less for it.
--
--  $1 … $17   the message
--  $18        the version of the content
--  $19, $20   if it is claimed, the token and the provider that is asked first
--  $21        how long the lease lasts
--  $22        how far the time of an id may be from now
--  $23        when it has waited the allowed time
with timely as materialized (
    select $1::uuid as id
    where $3::timestamptz between now() - $22::interval and now() + $22::interval
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
        size_bytes,
        content_version,
        content
    )
    select
        id,
        $2::text,
        $3::timestamptz,
        $4::text,
        $5::text::priority,
        $6::text::unknown_outcome,
        $7::text,
        string_to_array($8::text, E'\n'),
        string_to_array($9::text, E'\n'),
        $10::text,
        $11::text,
        $12::text,
        $13::text,
        length($14::bytea),
        $18::smallint,
        $14::bytea
    from timely
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
        id,
        $15::integer,
        case when $19::bigint is null then 'NOT_YET_SENT' else 'IN_PROCESS' end::status,
        case
            when $19::bigint is null then least($16::timestamptz, $17::timestamptz, $23::timestamptz)
            else now() + $21::interval
        end,
        $17::timestamptz,
        $23::timestamptz,
        $6::text = 'HOLD',
        size_bytes,
        $19::bigint,
        $20::text,
        -- Under RESEND sending may begin at once; under HOLD that is put on record apart, before the first byte.
        case when $19::bigint is not null and $6::text <> 'HOLD' then now() end
    from stored
    returning id, status
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, 1
    from queued
)
select id as "id!"
from timely
