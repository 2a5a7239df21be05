-- Takes what is due from lanes, each from its position on, and answers with what it found there.
--
-- Only what waits as it should is taken. A row that is out of order (a lease that ran out, a time that has passed, a
-- message that was called off) is locked for the moment and told of; `recover.sql` deals with it.
--
-- This statement runs for every batch of messages, and its plan is made once: a row is found by the index of what is due
-- and then known by its place, so that there is one way to do it, whatever Postgres believes of the size of the table.
--
-- Lanes are looked at in the order given, and no further than to the last row that is wanted. There is always a row in
-- the answer, since the database's time is one.
--
--  $1 … $4  lanes, and for each since when, how many at most, and the provider that is asked first
--  $5       how many at most in all
--  $6       how long the lease lasts
--  $7       a token for each row
--  $8       whether what others hold is told of when their leases have run out
with met as (
    select
        asked.place,
        asked.provider as first_provider,
        due.place_in_table,
        due.id,
        due.due_at,
        due.status,
        due.rounds,
        due.attempts,
        due.open_recipients,
        due.accepted_before,
        due.unknown_since,
        due.unknown_at,
        due.expire_at,
        due.give_up_at,
        due.hold,
        due.ask_first,
        due.provider,
        due.size_bytes,
        due.status = 'IN_PROCESS'
            or due.cancel_requested
            or due.give_up_at <= now()
            or coalesce(due.expire_at <= now(), false) as out_of_order
    from unnest($1::integer[], $2::timestamptz[], $3::integer[], $4::text[])
        with ordinality as asked (lane, since, size, provider, place)
    cross join lateral (
        select
            pending.ctid as place_in_table,
            pending.id,
            pending.due_at,
            pending.status,
            pending.rounds,
            pending.attempts,
            pending.open_recipients,
            pending.accepted_before,
            pending.unknown_since,
            case when pending.last_class = 'OUTCOME_UNKNOWN' then pending.last_provider end as unknown_at,
            pending.expire_at,
            pending.give_up_at,
            pending.hold,
            pending.ask_first,
            pending.provider,
            pending.size_bytes,
            pending.cancel_requested
        from pending
        where pending.lane = asked.lane
            and pending.due_at >= asked.since
            and pending.due_at <= now()
            and ($8 or pending.status <> 'IN_PROCESS')
            -- A look-up of its own and no join, which could change the order of the lanes.
            and not (select lane.paused from lane where lane.id = asked.lane)
        order by pending.due_at
        limit asked.size
        for update of pending skip locked
    ) as due
    limit $5
),
found as materialized (
    select
        row_number() over () as nth,
        met.place,
        met.place_in_table,
        met.id,
        met.due_at,
        met.status,
        met.rounds,
        met.attempts,
        met.open_recipients,
        met.accepted_before,
        met.unknown_since,
        met.unknown_at,
        met.expire_at,
        met.give_up_at,
        met.hold,
        met.ask_first,
        case when met.ask_first then met.provider else met.first_provider end as provider,
        met.size_bytes,
        met.out_of_order
    from met
),
claimed as (
    update pending
    set
        status = 'IN_PROCESS',
        due_at = now() + $6::interval,
        token = ($7::bigint[])[found.nth],
        -- Under RESEND sending may begin at once; under HOLD that is put on record apart, before the first byte.
        begun_at = case when not found.hold then now() end,
        provider = found.provider
    from found
    where pending.ctid = found.place_in_table
        and not found.out_of_order
    returning found.nth, found.id, found.status
),
tallied as (
    insert into tally (day, status, n)
    select moved.day, change.status, change.n
    from (
        select day_of(id) as day, status, count(*) as n
        from claimed
        group by day_of(id), status
    ) as moved
    cross join lateral (
        values (moved.status, -moved.n), ('IN_PROCESS', moved.n)
    ) as change (status, n)
)
select
    now() as "now!",
    found.nth,
    found.place,
    found.id,
    found.due_at,
    found.rounds,
    found.attempts,
    found.open_recipients,
    found.accepted_before,
    found.unknown_since,
    found.unknown_at,
    found.expire_at,
    found.give_up_at,
    found.hold,
    found.ask_first,
    found.provider,
    found.size_bytes,
    found.out_of_order,
    coalesce(found.nth = any (array(select nth from claimed)), false) as "taken!"
from (values (true)) as always (is_so)
left join found on always.is_so
