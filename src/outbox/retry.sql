-- Gives messages that wait for a person a new count of rounds; answers with how many there are of each lane. What is sent
-- is the same message, to those recipients that are not finished.
--
-- Left out are those of unknown outcome unless they are asked for, those that were called off, and those whose `expire_at`
-- has passed: nothing may send them.
--
-- One of unknown outcome goes first to the provider that may have it, under the key by which that one may know it. It was
-- to be held; whoever asked for it took the risk, so from here on it is not.
--
-- Rows are locked in the order of their ids, so that two statements never wait for each other in a circle.
--
--  $1  the messages
--  $2  whether those of unknown outcome are among them
--  $3  how long they may wait, counted anew
--  $4  whether they are only counted
with asked as materialized (
    select distinct id
    from unnest($1::uuid[]) as wanted (id)
    order by id
),
-- Each row is looked for by its id, whatever Postgres believes of the size of the table.
met as materialized (
    select
        found.id,
        found.lane,
        found.status,
        found.is_untried,
        found.may_be_there
    from asked
    cross join lateral (
        select
            pending.id,
            pending.lane,
            pending.status,
            pending.attempts = 0 as is_untried,
            coalesce(pending.last_class = 'OUTCOME_UNKNOWN', false) as may_be_there
        from pending
        where pending.id = asked.id
            and pending.failed_at is not null
            and (pending.status <> 'FAILED_OUTCOME_UNKNOWN' or $2)
            and not pending.cancel_requested
            and (pending.expire_at is null or pending.expire_at > now())
        limit 1
        for update
    ) as found
),
moved as (
    update pending
    set
        status = case when met.is_untried then 'NOT_YET_SENT' else 'REQUIRED_RESEND' end::status,
        due_at = now(),
        failed_at = null,
        give_up_at = now() + $3::interval,
        rounds = 0,
        hold = pending.hold and met.status <> 'FAILED_OUTCOME_UNKNOWN',
        ask_first = met.may_be_there,
        provider = case when met.may_be_there then pending.last_provider end,
        -- Where none is left each was refused and none was accepted: all are offered again.
        open_recipients = case
            when cardinality(pending.open_recipients) > 0 then pending.open_recipients
        end,
        skipped = null
    from met
    where pending.id = met.id
        and not $4::boolean
    returning pending.id, met.status as status_before, pending.status
),
written as (
    insert into event (message_id, kind, at)
    select id, 'RETRIED', now()
    from moved
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, status_before as status, -1 as n
        from moved
        union all
        select id, status, 1
        from moved
    ) as change
    group by day_of(id), status
)
select
    lane as "lane!",
    count(*) as "count!"
from met
group by lane
