-- Calls messages off that are not finished; answers where each of them stands then. What waits, for a machine or for a
-- person, comes to its end here; of what is taken it is noted, for whoever has it.
--
-- The fates are those of the transition function in `delivery/policy.rs` for a message that is called off.
--
-- Rows are locked in the order of their ids, so that two statements never wait for each other in a circle. Made again it
-- changes nothing: what came to its end is not there any more, and the rest is as it would be made.
--
--  $1      the messages
--  $2      the client whose they must be; null: anybody's
--  $3, $4  the first and the last of the ids
--  $5      whether it is only said what would become of them
with asked as materialized (
    select wanted.id
    from unnest($1::uuid[]) as wanted (id)
    cross join lateral (
        select
        from message
        where message.id = wanted.id
            and message.id >= $3
            and message.id <= $4
            and ($2::text is null or message.client = $2)
        limit 1
    ) as message
    order by wanted.id
),
-- Each row is looked for by its id, whatever Postgres believes of the size of the table.
met as materialized (
    select
        found.id,
        found.status,
        found.rounds,
        found.attempts,
        found.unknown_since,
        found.accepted_before,
        found.cancel_requested,
        found.last_attempt_at,
        found.last_class,
        found.last_provider,
        found.last_code,
        found.provider_message_id
    from asked
    cross join lateral (
        select
            pending.id,
            pending.status,
            pending.rounds,
            pending.attempts,
            pending.unknown_since,
            pending.accepted_before,
            pending.cancel_requested,
            pending.last_attempt_at,
            pending.last_class,
            pending.last_provider,
            pending.last_code,
            pending.provider_message_id
        from pending
        where pending.id = asked.id
        limit 1
        for update
    ) as found
),
judged as materialized (
    select
        met.id,
        met.status as status_before,
        met.rounds,
        met.attempts,
        met.cancel_requested,
        met.last_attempt_at,
        met.last_class,
        met.last_provider,
        met.last_code,
        met.provider_message_id,
        case
            when met.status in ('IN_PROCESS', 'FAILED_OUTCOME_UNKNOWN') then null
            when met.unknown_since is not null then 'FAILED_OUTCOME_UNKNOWN'
            when met.accepted_before then 'SUCCESS_SENT'
            else 'CANCELED'
        end::status as fate
    from met
),
noted as (
    update pending
    set cancel_requested = true
    from judged
    where pending.id = judged.id
        and judged.status_before = 'IN_PROCESS'
        and not judged.cancel_requested
        and not $5::boolean
),
finished as (
    delete from pending
    using judged
    where pending.id = judged.id
        and judged.fate in ('CANCELED', 'SUCCESS_SENT')
        and not $5
),
moved as (
    update pending
    set
        status = judged.fate,
        due_at = null,
        -- One that waits for a person already has done so since then.
        failed_at = coalesce(pending.failed_at, now()),
        -- It has neither. But Postgres checks its rules also for the row as it was when the statement began, which somebody
        -- may have had then.
        token = null,
        begun_at = null,
        ask_first = false,
        cancel_requested = true
    from judged
    where pending.id = judged.id
        and judged.fate = 'FAILED_OUTCOME_UNKNOWN'
        and not $5
),
written as (
    insert into event (
        message_id,
        kind,
        at,
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
        judged.id,
        'CANCELED',
        now(),
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
        select case when judged.fate in ('CANCELED', 'SUCCESS_SENT') then judged.fate end as status
    ) as final
    where judged.fate is not null
        and not $5
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, status_before as status, -1 as n
        from judged
        where fate is not null
        union all
        select id, fate, 1
        from judged
        where fate is not null
    ) as change
    where not $5
    group by day_of(id), status
    having sum(n) <> 0
)
select
    judged.id as "id!",
    coalesce(judged.fate, judged.status_before)::text as "status!",
    (judged.fate is not null or judged.status_before = 'IN_PROCESS') as "is_called_off!"
from judged
