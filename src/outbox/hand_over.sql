-- Writes down the attempts finished so far and names the provider that is asked next, if the lease holds. Writes nothing
-- where one of the recipients was accepted late, while the holder of the lease was at work: then the row has fewer open.
--
--  $1, $2  message and token
--  $3      the provider that is asked next
--  $4      the recipients still open
--  $5      whether a recipient was accepted in these attempts
--  $6      when the first of them of unknown outcome began
--  $7 …    the attempts
with held as materialized (
    select id, attempts, open_recipients
    from pending
    where id = $1
        and token = $2
    for update
),
wanted as materialized (
    select id, attempts
    from held
    where open_recipients is null
        or string_to_array($4, ',')::smallint[] <@ open_recipients
),
tried as materialized (
    select
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
    from wanted
    cross join unnest(
        $7::integer[],
        $8::integer[],
        $9::text[],
        $10::timestamptz[],
        $11::bigint[],
        $12::text[],
        $13::text[],
        $14::text[],
        $15::text[],
        $16::text[],
        $17::text[],
        $18::text[],
        $19::text[]
    ) as attempt (
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
    -- Made again after its answer was lost: what is written is not written twice.
    where wanted.attempts = 0
        or not exists (
            select
            from event
            where event.message_id = $1
                and event.at = attempt.started_at
                and event.provider = attempt.provider
                and event.round = attempt.round
                and event.kind in ('ATTEMPT', 'LATE_OUTCOME')
        )
),
last as (
    select
        provider,
        class,
        code,
        provider_message_id,
        started_at,
        count(*) over () as attempts
    from tried
    order by nth desc
    limit 1
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
        skipped
    )
    select
        $1,
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
        skipped
    from tried
    order by nth
),
moved as (
    update pending
    set
        -- Of a message that was called off nothing more is sent.
        provider = case when pending.cancel_requested then pending.provider else $3 end,
        begun_at = case when pending.cancel_requested then null else now() end,
        ask_first = pending.ask_first and pending.provider = $3,
        open_recipients = string_to_array($4, ',')::smallint[],
        accepted_before = pending.accepted_before or $5,
        unknown_since = coalesce(pending.unknown_since, $6),
        attempts = pending.attempts + coalesce(last.attempts, 0),
        last_provider = coalesce(last.provider, pending.last_provider),
        last_class = coalesce(last.class, pending.last_class),
        last_code = case when last.provider is null then pending.last_code else last.code end,
        provider_message_id = case
            when last.provider is null then pending.provider_message_id
            else last.provider_message_id
        end,
        last_attempt_at = coalesce(last.started_at, pending.last_attempt_at)
    from wanted
    left join last on true
    where pending.id = wanted.id
    returning pending.cancel_requested
)
select
    moved.cancel_requested is null as "is_narrowed!",
    coalesce(moved.cancel_requested, false) as "cancel_requested!"
from held
left join moved on true
