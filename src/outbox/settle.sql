-- Writes back what rounds came to, for those whose lease holds; answers with their leases.
--
-- Rows are locked in the order of their ids, so that two settles never wait for each other in a circle. What is finished
-- moves from `pending` to its final event, and what is not is changed, all in one statement: no reader sees a message
-- twice or not at all.
--
-- Recipients that were accepted late, while the holder of the lease was at work, are no longer open in the row. They
-- are not opened again, and a message that has none left is sent.
--
--  $1 … $11   the outcomes
--  $12 … $26  the attempts that are not written down yet
--  $27, $28   the least and the greatest id, so that only the days between them are looked at
with outcome as materialized (
    select
        id,
        token,
        status::status as status,
        due_at,
        string_to_array(open_recipients, ',')::smallint[] as open_recipients,
        ask_first,
        round_spent,
        accepted,
        unknown_since,
        closed,
        skipped::jsonb as skipped
    from unnest(
        $1::uuid[],
        $2::bigint[],
        $3::text[],
        $4::timestamptz[],
        $5::text[],
        $6::text[],
        $7::boolean[],
        $8::boolean[],
        $9::timestamptz[],
        $10::boolean[],
        $11::text[]
    ) as outcome (
        id,
        token,
        status,
        due_at,
        open_recipients,
        ask_first,
        round_spent,
        accepted,
        unknown_since,
        closed,
        skipped
    )
),
held as materialized (
    select
        pending.id,
        pending.token,
        pending.expire_at,
        pending.give_up_at,
        pending.cancel_requested,
        pending.rounds,
        pending.attempts,
        pending.ask_first,
        pending.provider,
        pending.last_attempt_at,
        pending.last_class,
        pending.last_provider,
        pending.last_code,
        pending.provider_message_id,
        pending.accepted_before,
        pending.open_recipients,
        outcome.status as next_status,
        outcome.due_at as next_due_at,
        outcome.open_recipients as next_open,
        outcome.ask_first as next_provider,
        outcome.round_spent,
        outcome.accepted,
        outcome.unknown_since,
        outcome.closed,
        outcome.skipped
    from outcome
    join pending
        on pending.id = outcome.id
        and pending.token = outcome.token
    order by pending.id
    for update of pending
),
tried as materialized (
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
        attempt.skipped::jsonb as skipped
    from unnest(
        $12::uuid[],
        $13::bigint[],
        $14::integer[],
        $15::integer[],
        $16::text[],
        $17::timestamptz[],
        $18::bigint[],
        $19::text[],
        $20::text[],
        $21::text[],
        $22::text[],
        $23::text[],
        $24::text[],
        $25::text[],
        $26::text[]
    ) as attempt (
        id,
        token,
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
    join held
        on held.id = attempt.id
        and held.token = attempt.token
    -- What was handed over before, and its answer lost, is not written twice.
    where held.attempts = 0
        or not exists (
            select
            from event
            where event.message_id = attempt.id
                and event.message_id >= $27
                and event.message_id <= $28
                and event.at = attempt.started_at
                and event.provider = attempt.provider
                and event.round = attempt.round
                and event.kind in ('ATTEMPT', 'LATE_OUTCOME')
        )
),
last as (
    select distinct on (id)
        id,
        nth,
        provider,
        class,
        code,
        provider_message_id,
        started_at,
        count(*) over (partition by id) as attempts
    from tried
    order by id, nth desc
),
rest as materialized (
    select
        held.id,
        still.open as open_recipients,
        held.accepted_before
            and case
                when cardinality(held.next_open) > 0 then cardinality(still.open) = 0
                -- The holder did not know that anybody was accepted.
                else held.next_status = 'FAILED_NOT_RETRYABLE' and held.closed
            end as is_sent
    from held
    cross join lateral (
        select array(
            select recipient
            from unnest(held.next_open) as recipient
            where held.open_recipients is null
                or recipient = any (held.open_recipients)
        ) as open
    ) as still
),
after as materialized (
    select
        held.id,
        held.token,
        held.cancel_requested,
        judged.next_status,
        held.next_due_at,
        rest.open_recipients,
        held.accepted,
        held.unknown_since,
        held.skipped,
        held.rounds + held.round_spent::integer as rounds,
        held.attempts + coalesce(last.attempts, 0) as attempts,
        -- What waits without having been tried keeps the provider that it waits for.
        case
            when judged.next_status = 'FAILED_OUTCOME_UNKNOWN' then held.provider
            when last.id is null and held.ask_first and held.next_provider is null then held.provider
            else held.next_provider
        end as provider,
        held.next_provider is not null or (last.id is null and held.ask_first) as ask_first,
        coalesce(last.started_at, held.last_attempt_at) as last_attempt_at,
        coalesce(last.class, held.last_class) as last_class,
        coalesce(last.provider, held.last_provider) as last_provider,
        case when last.id is null then held.last_code else last.code end as last_code,
        case
            when last.id is null then held.provider_message_id
            else last.provider_message_id
        end as provider_message_id,
        last.nth as last_nth,
        judged.next_status in ('EXPIRED', 'CANCELED', 'SUCCESS_SENT') as is_finished,
        -- What ended it, where that was not the last attempt: a message is only ever sent with recipients left open
        -- because it was called off.
        case
            when judged.next_status = 'SUCCESS_SENT' and last.id is not null and (held.closed or rest.is_sent) then null
            when judged.next_status in ('SUCCESS_SENT', 'CANCELED') then 'CANCELED'
            when judged.next_status = 'EXPIRED' then 'EXPIRED'
            when judged.next_status = 'FAILED_OUTCOME_UNKNOWN' and held.cancel_requested then 'CANCELED'
            when judged.next_status in ('FAILED_OUTCOME_UNKNOWN', 'FAILED_RETRIES_EXHAUSTED')
                and held.expire_at <= now() then 'EXPIRED'
            when judged.next_status in ('FAILED_OUTCOME_UNKNOWN', 'FAILED_RETRIES_EXHAUSTED')
                and held.give_up_at <= now() then 'GAVE_UP'
        end::event_kind as ended_by
    from held
    join rest on rest.id = held.id
    left join last on last.id = held.id
    cross join lateral (
        select case when rest.is_sent then 'SUCCESS_SENT' else held.next_status end as next_status
    ) as judged
),
finished as (
    delete from pending
    using after
    where pending.id = after.id
        and after.is_finished
),
moved as (
    update pending
    set
        status = case
            when after.next_due_at is null then after.next_status
            when after.attempts = 0 then 'NOT_YET_SENT'
            else 'REQUIRED_RESEND'
        end,
        -- Called off in the meantime: the next claim sees to it at once.
        due_at = case
            when after.cancel_requested and after.next_due_at is not null then least(after.next_due_at, now())
            else after.next_due_at
        end,
        failed_at = case when after.next_due_at is null then now() end,
        token = null,
        begun_at = null,
        provider = after.provider,
        ask_first = after.next_due_at is not null and after.ask_first,
        open_recipients = after.open_recipients,
        accepted_before = pending.accepted_before or after.accepted,
        unknown_since = coalesce(pending.unknown_since, after.unknown_since),
        skipped = after.skipped,
        rounds = after.rounds,
        attempts = after.attempts,
        last_attempt_at = after.last_attempt_at,
        last_class = after.last_class,
        last_provider = after.last_provider,
        last_code = after.last_code,
        provider_message_id = after.provider_message_id
    from after
    where pending.id = after.id
        and not after.is_finished
    returning pending.id, pending.status
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, 'IN_PROCESS'::status as status, -1 as n
        from after
        union all
        select id, status, 1
        from moved
        union all
        select id, next_status, 1
        from after
        where is_finished
    ) as change
    group by day_of(id), status
    having sum(n) <> 0
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
        detail,
        provider_message_id,
        duration_us,
        offered,
        verdicts,
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
            tried.id,
            tried.nth,
            'ATTEMPT'::event_kind as kind,
            tried.started_at as at,
            tried.round,
            tried.provider,
            tried.class,
            tried.scope,
            tried.code,
            tried.detail,
            tried.provider_message_id,
            tried.duration_us,
            tried.offered,
            tried.verdicts,
            tried.skipped,
            final.status,
            case when final.status is not null then now() end as finished_at,
            case when final.status is not null then after.rounds end as rounds,
            case when final.status is not null then after.attempts end as attempts,
            null::timestamptz as last_attempt_at,
            null::class as last_class,
            null::text as last_provider,
            null::text as last_code,
            null::text as last_provider_message_id
        from tried
        join after on after.id = tried.id
        cross join lateral (
            select case
                when after.is_finished and after.ended_by is null and tried.nth = after.last_nth then after.next_status
            end as status
        ) as final
        union all
        select
            after.id,
            2147483647,
            after.ended_by,
            now(),
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            null,
            after.skipped,
            final.status,
            case when final.status is not null then now() end,
            case when final.status is not null then after.rounds end,
            case when final.status is not null then after.attempts end,
            case when final.status is not null then after.last_attempt_at end,
            case when final.status is not null then after.last_class end,
            case when final.status is not null then after.last_provider end,
            case when final.status is not null then after.last_code end,
            case when final.status is not null then after.provider_message_id end
        from after
        cross join lateral (
            select case when after.is_finished then after.next_status end as status
        ) as final
        where after.ended_by is not null
    ) as story
    order by id, nth
)
select id as "id!", token as "token!"
from after
