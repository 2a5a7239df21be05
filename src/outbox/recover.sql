-- Takes what is due from lanes in which something is out of order, and deals with that: a lease that ran out, a time
-- that has passed, a message that was called off. Answers with every row it touched; those with a fate were not claimed.
--
-- The fates are those of the transition function in `delivery/policy.rs`, for a round that was cut off (a takeover) or
-- not begun.
--
--  $1 … $3  lanes, and for each since when, and the provider that is asked first
--  $4       how many at most
--  $5       how long the lease lasts
--  $6       a token for each row
--  $7       how many rounds may be spent
--  $8       the providers that recognise a message by its key
--  $9       whether only what must not wait any longer is dealt with, be its lane paused, and nothing claimed
--  $10      whether what others hold is taken over when their leases have run out
with taken as materialized (
    select
        row_number() over () as nth,
        asked.lane,
        asked.provider as first_provider,
        due.id,
        due.due_at,
        due.expire_at,
        due.give_up_at,
        due.unknown_since,
        due.begun_at,
        due.last_attempt_at,
        due.status,
        due.rounds,
        due.attempts,
        due.last_class,
        due.hold,
        due.ask_first,
        due.accepted_before,
        due.cancel_requested,
        due.open_recipients,
        due.provider,
        due.last_provider,
        due.last_code,
        due.provider_message_id,
        due.size_bytes,
        due.skipped
    from unnest($1::integer[], $2::timestamptz[], $3::text[]) as asked (lane, since, provider)
    cross join lateral (
        select
            pending.id,
            pending.due_at,
            pending.expire_at,
            pending.give_up_at,
            pending.unknown_since,
            pending.begun_at,
            pending.last_attempt_at,
            pending.status,
            pending.rounds,
            pending.attempts,
            pending.last_class,
            pending.hold,
            pending.ask_first,
            pending.accepted_before,
            pending.cancel_requested,
            pending.open_recipients,
            pending.provider,
            pending.last_provider,
            pending.last_code,
            pending.provider_message_id,
            pending.size_bytes,
            pending.skipped
        from pending
        where pending.lane = asked.lane
            and pending.due_at >= asked.since
            and pending.due_at <= now()
            and (
                pending.cancel_requested
                or pending.expire_at <= now()
                or pending.give_up_at <= now()
                or (not $9 and pending.status = 'IN_PROCESS')
            )
            and ($10 or pending.status <> 'IN_PROCESS')
            and ($9 or not (select lane.paused from lane where lane.id = asked.lane))
        order by pending.due_at
        limit $4
        for update of pending skip locked
    ) as due
    limit $4
),
-- A takeover of what had begun is an attempt of unknown outcome, and spends a round: a message that kills its
-- dispatcher comes to an end.
counted as (
    select
        taken.nth,
        taken.lane,
        taken.first_provider,
        taken.id,
        taken.expire_at,
        taken.give_up_at,
        taken.status = 'IN_PROCESS' as taken_over,
        taken.status as status_before,
        taken.begun_at,
        coalesce(taken.unknown_since, taken.begun_at) as unknown_since,
        taken.rounds + cut.off as rounds,
        taken.attempts + cut.off as attempts,
        taken.hold,
        taken.ask_first or cut.off = 1 as ask_first,
        taken.accepted_before,
        taken.cancel_requested,
        taken.open_recipients,
        taken.size_bytes,
        taken.skipped,
        taken.provider,
        case cut.off when 1 then taken.begun_at else taken.last_attempt_at end as last_attempt_at,
        case cut.off when 1 then 'OUTCOME_UNKNOWN' else taken.last_class end as last_class,
        case cut.off when 1 then taken.provider else taken.last_provider end as last_provider,
        case cut.off when 1 then 'takeover' else taken.last_code end as last_code,
        case cut.off when 1 then null else taken.provider_message_id end as provider_message_id
    from taken
    cross join lateral (
        select (taken.begun_at is not null)::integer as off
    ) as cut
),
judged as materialized (
    select
        counted.nth,
        counted.lane,
        counted.first_provider,
        counted.id,
        counted.expire_at,
        counted.give_up_at,
        counted.taken_over,
        counted.status_before,
        counted.begun_at,
        counted.unknown_since,
        counted.rounds,
        counted.attempts,
        counted.hold,
        counted.ask_first,
        counted.accepted_before,
        counted.cancel_requested,
        counted.open_recipients,
        counted.size_bytes,
        counted.skipped,
        counted.provider,
        counted.last_attempt_at,
        counted.last_class,
        counted.last_provider,
        counted.last_code,
        counted.provider_message_id,
        verdict.reason,
        case
            when verdict.reason is null then null
            when verdict.reason in ('CANCELED', 'EXPIRED') and counted.unknown_since is not null
                then 'FAILED_OUTCOME_UNKNOWN'
            when verdict.reason = 'CANCELED' and counted.accepted_before then 'SUCCESS_SENT'
            when verdict.reason = 'CANCELED' then 'CANCELED'
            when verdict.reason = 'EXPIRED' and counted.accepted_before then 'FAILED_RETRIES_EXHAUSTED'
            when verdict.reason = 'EXPIRED' then 'EXPIRED'
            when counted.hold and counted.unknown_since is not null then 'FAILED_OUTCOME_UNKNOWN'
            else 'FAILED_RETRIES_EXHAUSTED'
        end::status as fate
    from counted
    cross join lateral (
        select case
            when counted.cancel_requested then 'CANCELED'
            when counted.expire_at <= now() then 'EXPIRED'
            when counted.give_up_at <= now() then 'GAVE_UP'
            when counted.hold and counted.begun_at is not null and counted.provider <> all ($8::text[]) then 'HELD'
            when counted.begun_at is not null and counted.rounds >= $7 then 'EXHAUSTED'
        end as reason
    ) as verdict
    -- There are no more than that; said again for the planner, which would take them for a tenth of the table.
    limit $4
),
finished as (
    delete from pending
    using judged
    where pending.id = judged.id
        and judged.fate in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT')
),
moved as (
    update pending
    set
        status = coalesce(judged.fate, 'IN_PROCESS'),
        due_at = case when judged.fate is null then now() + $5::interval end,
        failed_at = case when judged.fate is not null then now() end,
        token = case when judged.fate is null then ($6::bigint[])[judged.nth] end,
        -- That sending begins is put on record apart, before the first byte: where a message kills whoever holds it, those
        -- that were only held beside it must not be taken for sent time and again.
        begun_at = null,
        provider = case
            when judged.fate = 'FAILED_OUTCOME_UNKNOWN' then coalesce(judged.provider, judged.last_provider)
            when judged.fate is not null then null
            when judged.ask_first then judged.provider
            else judged.first_provider
        end,
        ask_first = judged.fate is null and judged.ask_first,
        unknown_since = judged.unknown_since,
        rounds = judged.rounds,
        attempts = judged.attempts,
        last_attempt_at = judged.last_attempt_at,
        last_class = judged.last_class,
        last_provider = judged.last_provider,
        last_code = judged.last_code,
        provider_message_id = judged.provider_message_id
    from judged
    where pending.id = judged.id
        and (judged.fate is null
            or judged.fate in ('FAILED_NOT_RETRYABLE', 'FAILED_RETRIES_EXHAUSTED', 'FAILED_OUTCOME_UNKNOWN'))
    returning pending.id, pending.token, pending.due_at, pending.provider, pending.ask_first
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
        offered,
        skipped,
        status,
        finished_at,
        rounds,
        attempts,
        last_attempt_at,
        last_class,
        last_provider,
        last_code,
        last_provider_message_id
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
        offered,
        skipped,
        status,
        finished_at,
        rounds,
        attempts,
        last_attempt_at,
        last_class,
        last_provider,
        last_code,
        last_provider_message_id
    from (
        select
            id,
            1 as step,
            'TAKEOVER'::event_kind as kind,
            coalesce(begun_at, now()) as at,
            case when begun_at is not null then rounds end as round,
            provider,
            case when begun_at is not null then 'OUTCOME_UNKNOWN'::class end as class,
            case when begun_at is not null then 'WIRE'::scope end as scope,
            case when begun_at is not null then 'takeover' end as code,
            open_recipients as offered,
            null::jsonb as skipped,
            null::status as status,
            null::timestamptz as finished_at,
            null::integer as rounds,
            null::integer as attempts,
            null::timestamptz as last_attempt_at,
            null::class as last_class,
            null::text as last_provider,
            null::text as last_code,
            null::text as last_provider_message_id
        from judged
        where taken_over
        union all
        select
            judged.id,
            2,
            judged.reason::event_kind,
            now(),
            null,
            null,
            null,
            null,
            null,
            null,
            judged.skipped,
            final.status,
            case when final.status is not null then now() end,
            case when final.status is not null then judged.rounds end,
            case when final.status is not null then judged.attempts end,
            case when final.status is not null then judged.last_attempt_at end,
            case when final.status is not null then judged.last_class end,
            case when final.status is not null then judged.last_provider end,
            case when final.status is not null then judged.last_code end,
            case when final.status is not null then judged.provider_message_id end
        from judged
        cross join lateral (
            select case when judged.fate in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT') then judged.fate end as status
        ) as final
        where judged.reason in ('CANCELED', 'EXPIRED', 'GAVE_UP')
    ) as story
    order by id, step
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, status_before as status, -1 as n
        from judged
        union all
        select id, coalesce(fate, 'IN_PROCESS'), 1
        from judged
    ) as change
    group by day_of(id), status
    having sum(n) <> 0
)
select
    judged.id as "id!",
    judged.fate::text as fate,
    moved.token,
    moved.due_at as leased_until,
    judged.lane as "lane!",
    moved.provider,
    coalesce(moved.ask_first, false) as "ask_first!",
    judged.rounds as "rounds!",
    judged.attempts as "attempts!",
    judged.open_recipients,
    judged.accepted_before as "accepted_before!",
    judged.unknown_since,
    case when judged.last_class = 'OUTCOME_UNKNOWN' then judged.last_provider end as unknown_at,
    judged.expire_at,
    judged.give_up_at as "give_up_at!",
    judged.hold as "hold!",
    judged.size_bytes as "size_bytes!"
from judged
left join moved on moved.id = judged.id
