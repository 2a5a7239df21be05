-- Gives messages back whose sending has not begun, of those whose lease holds; answers with how many.
--
--  $1, $2  messages and tokens
--  $3      after what time they are due
with held as materialized (
    select pending.id
    from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
    join pending
        on pending.id = lease.id
        and pending.token = lease.token
    order by pending.id
    for update of pending
),
released as (
    update pending
    set
        status = case when pending.attempts = 0 then 'NOT_YET_SENT' else 'REQUIRED_RESEND' end::status,
        -- Called off in the meantime: the next claim sees to it at once.
        due_at = case
            when pending.cancel_requested then now()
            else least(now() + $3::interval, pending.expire_at, pending.give_up_at)
        end,
        token = null,
        begun_at = null,
        provider = case when pending.ask_first then pending.provider end
    from held
    where pending.id = held.id
    returning pending.id, pending.status
),
tallied as (
    insert into tally (day, status, n)
    select day_of(id), status, sum(n)
    from (
        select id, 'IN_PROCESS'::status as status, -1 as n
        from released
        union all
        select id, status, 1
        from released
    ) as change
    group by day_of(id), status
)
select count(*) as "count!"
from released
