-- Writes back what went well at the first try: the message was accepted by the first provider that was asked, for every
-- recipient. Answers with the leases of those that it wrote; whatever stands otherwise is left to the settle that knows
-- everything.
--
-- Rows are locked in the order of their ids, so that two settles never wait for each other in a circle.
--
--  $1, $2    messages and tokens
--  $3 … $14  the attempt of each
with outcome as materialized (
    select
        id,
        token,
        round,
        provider,
        started_at,
        duration_us,
        class::class as class,
        scope::scope as scope,
        code,
        detail,
        provider_message_id,
        string_to_array(offered, ',')::smallint[] as offered,
        verdicts::jsonb as verdicts,
        skipped::jsonb as skipped
    from unnest(
        $1::uuid[],
        $2::bigint[],
        $3::integer[],
        $4::text[],
        $5::timestamptz[],
        $6::bigint[],
        $7::text[],
        $8::text[],
        $9::text[],
        $10::text[],
        $11::text[],
        $12::text[],
        $13::text[],
        $14::text[]
    ) as outcome (
        id,
        token,
        round,
        provider,
        started_at,
        duration_us,
        class,
        scope,
        code,
        detail,
        provider_message_id,
        offered,
        verdicts,
        skipped
    )
    order by id
),
-- Each row is looked for by its id, whatever Postgres believes of the size of the table.
held as materialized (
    select found.id
    from outcome
    cross join lateral (
        select pending.id
        from pending
        where pending.id = outcome.id
            and pending.token = outcome.token
            and pending.attempts = 0
            and pending.open_recipients is null
            and not pending.accepted_before
        limit 1
        for update
    ) as found
),
gone as (
    delete from pending
    where id = any (array(select id from held))
    returning id, rounds
),
sent as materialized (
    select
        outcome.id,
        outcome.token,
        gone.rounds,
        outcome.round,
        outcome.provider,
        outcome.started_at,
        outcome.duration_us,
        outcome.class,
        outcome.scope,
        outcome.code,
        outcome.detail,
        outcome.provider_message_id,
        outcome.offered,
        outcome.verdicts,
        outcome.skipped
    from outcome
    join gone on gone.id = outcome.id
),
written as (
    insert into event (
        message_id,
        kind,
        at,
        round,
        provider,
        class,
        scope,
        code,
        detail,
        provider_message_id,
        duration_us,
        offered,
        verdicts,
        skipped,
        status,
        finished_at,
        rounds,
        attempts
    )
    select
        id,
        'ATTEMPT',
        started_at,
        round,
        provider,
        class,
        scope,
        code,
        detail,
        provider_message_id,
        duration_us,
        offered,
        verdicts,
        skipped,
        'SUCCESS_SENT',
        now(),
        -- What was accepted has spent its round.
        rounds + 1,
        1
    from sent
),
tallied as (
    insert into tally (day, status, n)
    select day_of(sent.id), change.status, sum(change.n)
    from sent
    cross join (
        values
            ('IN_PROCESS'::status, -1),
            ('SUCCESS_SENT', 1)
    ) as change (status, n)
    group by day_of(sent.id), change.status
)
select id as "id!", token as "token!"
from sent
