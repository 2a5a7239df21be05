-- Gives rows that this process has claimed, and cannot read, to a person.
--
--  $1, $2  messages and tokens
with failed as (
    update pending
    set
        status = 'FAILED_NOT_RETRYABLE',
        due_at = null,
        failed_at = now(),
        token = null,
        begun_at = null,
        provider = null,
        ask_first = false
    from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
    where pending.id = lease.id
        and pending.token = lease.token
    returning pending.id, pending.status
)
insert into tally (day, status, n)
select day_of(id), status, sum(n)
from (
    select id, 'IN_PROCESS'::status as status, -1 as n
    from failed
    union all
    select id, status, 1
    from failed
) as change
group by day_of(id), status
