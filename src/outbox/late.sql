-- Adds outcomes to the history of messages that have gone on without them; each message at most once.
--
-- Nothing newer is overwritten. But what was accepted after all is not sent again: the recipients concerned are no
-- longer open, and a message that has none left is sent, whether it waits or another dispatcher has it: that one finds
-- its lease lost, and what it has done comes late in its turn. It may never tell, so what it has begun stands in the
-- history at once, as a takeover. Answers with the messages that still exist.
--
--  $1, $2    messages, and for each the recipients that were accepted
--  $3 … $16  the attempts
--  $17, $18  the least and the greatest id, so that only the days between them are looked at
with outcome as materialized (
    select id, string_to_array(accepted, ',')::smallint[] as accepted
    from unnest($1::uuid[], $2::text[]) as outcome (id, accepted)
),
unfinished as materialized (
    select
        pending.id,
        pending.status,
        pending.open_recipients,
        pending.provider,
        pending.begun_at,
        pending.rounds + cut.off as rounds,
        pending.attempts + cut.off as attempts
    from outcome
    join pending on pending.id = outcome.id
    cross join lateral (
        select (pending.begun_at is not null)::integer as off
    ) as cut
    order by pending.id
    for update of pending
),
kept as materialized (
    select outcome.id, outcome.accepted, message.recipients
    from outcome
    cross join lateral (
        select cardinality(message.recipients) as recipients
        from message
        where message.id = outcome.id
            and message.id >= $17
            and message.id <= $18
        limit 1
    ) as message
),
heard as materialized (
    select
        attempt.id,
        attempt.nth,
        attempt.round,
        attempt.provider,
        attempt.started_at,
        attempt.duration_us,
        attempt.class::class as class,
        attempt.scope::scope as scope,
        attempt.code,
        attempt.detail,
        attempt.provider_message_id,
        string_to_array(attempt.offered, ',')::smallint[] as offered,
        attempt.verdicts::jsonb as verdicts,
        attempt.skipped::jsonb as skipped,
        max(attempt.nth) over (partition by attempt.id) as last_nth
    from unnest(
        $3::uuid[],
        $4::integer[],
        $5::integer[],
        $6::text[],
        $7::timestamptz[],
        $8::bigint[],
        $9::text[],
        $10::text[],
        $11::text[],
        $12::text[],
        $13::text[],
        $14::text[],
        $15::text[],
        $16::text[]
    ) as attempt (
        id,
        nth,
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
    join kept on kept.id = attempt.id
    -- A settle made again after its answer was lost brings what is written already.
    where not exists (
        select
        from event
        where event.message_id = attempt.id
            and event.message_id >= $17
            and event.message_id <= $18
            and event.at = attempt.started_at
            and event.provider = attempt.provider
            and event.round = attempt.round
            and event.kind in ('ATTEMPT', 'LATE_OUTCOME')
    )
),
turned as materialized (
    select
        unfinished.id,
        unfinished.status,
        unfinished.open_recipients,
        unfinished.provider,
        unfinished.begun_at,
        unfinished.rounds,
        unfinished.attempts,
        rest.still_open,
        cardinality(rest.still_open) = 0 as is_sent
    from unfinished
    join kept on kept.id = unfinished.id
    cross join lateral (
        select array(
            select recipient
            from unnest(coalesce(
                unfinished.open_recipients,
                array(select generate_series(0, kept.recipients - 1))::smallint[]
            )) as recipient
            where recipient <> all (kept.accepted)
            order by recipient
        ) as still_open
    ) as rest
    where unfinished.status in (
            'IN_PROCESS',
            'REQUIRED_RESEND',
            'FAILED_RETRIES_EXHAUSTED',
            'FAILED_OUTCOME_UNKNOWN'
        )
        and cardinality(kept.accepted) > 0
        and exists (select from heard where heard.id = unfinished.id)
),
finished as (
    delete from pending
    using turned
    where pending.id = turned.id
        and turned.is_sent
),
narrowed as (
    update pending
    set
        open_recipients = turned.still_open,
        accepted_before = true
    from turned
    where pending.id = turned.id
        and not turned.is_sent
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, status, -1 as n
        from turned
        where is_sent
        union all
        select id, 'SUCCESS_SENT', 1
        from turned
        where is_sent
    ) as change
    group by day_of(id), status
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
    from (
        select
            id,
            -1 as nth,
            'TAKEOVER'::event_kind as kind,
            coalesce(begun_at, now()) as at,
            case when begun_at is not null then rounds end as round,
            provider,
            case when begun_at is not null then 'OUTCOME_UNKNOWN'::class end as class,
            case when begun_at is not null then 'WIRE'::scope end as scope,
            case when begun_at is not null then 'takeover' end as code,
            null as detail,
            null as provider_message_id,
            null::bigint as duration_us,
            open_recipients as offered,
            null::jsonb as verdicts,
            null::jsonb as skipped,
            null::status as status,
            null::timestamptz as finished_at,
            null::integer as rounds,
            null::integer as attempts
        from turned
        where is_sent
            and status = 'IN_PROCESS'
        union all
        select
            heard.id,
            heard.nth,
            'LATE_OUTCOME',
            heard.started_at,
            heard.round,
            heard.provider,
            heard.class,
            heard.scope,
            heard.code,
            heard.detail,
            heard.provider_message_id,
            heard.duration_us,
            heard.offered,
            heard.verdicts,
            heard.skipped,
            case when turned.id is not null then 'SUCCESS_SENT'::status end,
            case when turned.id is not null then now() end,
            turned.rounds,
            turned.attempts
        from heard
        left join turned
            on turned.id = heard.id
            and turned.is_sent
            and heard.nth = heard.last_nth
    ) as story
    order by id, nth
)
select kept.id as "id!", exists (select from heard where heard.id = kept.id) as "is_news!"
from kept
