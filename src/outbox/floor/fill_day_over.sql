-- Messages that were sent on a day that is over, spread over it, each with a key and 1 KB of content.
--
--  $1  when the day begins
--  $2  how many
--  $3  one in how many was finished just now
with input as materialized (
    select
        nth,
        accepted.at,
        (
            lpad(to_hex((extract(epoch from accepted.at) * 1000)::bigint), 12, '0')
            || '7' || lpad(to_hex(nth & 4095), 3, '0')
            || '8' || substr(md5(random()::text), 1, 15)
        )::uuid as id
    from generate_series(0, $2::bigint - 1) as nth
    cross join lateral (
        select $1::timestamptz + nth * interval '23 hours' / $2::bigint as at
    ) as accepted
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
        correlation_id,
        traceparent,
        tracestate,
        idempotency_key,
        size_bytes,
        content_version,
        content
    )
    select
        id,
        'bench',
        at,
        'default',
        'NORMAL',
        'RESEND',
        'billing@shop.example',
        array['customer@mail.example'],
        '{}',
        id::text,
        '',
        '',
        id::text,
        1024,
        1,
        decode(repeat(md5(id::text), 64), 'hex')
    from input
),
keyed as (
    insert into idempotency (client, key, message_id, fingerprint)
    select 'bench', id::text, id, decode(md5(id::text), 'hex')
    from input
)
insert into event (
    message_id,
    at,
    kind,
    round,
    class,
    scope,
    duration_us,
    provider,
    code,
    status,
    finished_at,
    rounds,
    attempts
)
select
    id,
    finished.at,
    'ATTEMPT',
    1,
    'ACCEPTED',
    'RECIPIENT',
    1000,
    'smtp',
    '250 2.0.0',
    'SUCCESS_SENT',
    finished.at,
    1,
    1
from input
cross join lateral (
    select case when nth % $3::bigint = 0 then now() else input.at + interval '1 second' end as at
) as finished
