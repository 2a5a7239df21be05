-- The lanes in which something waits, of chains that no process has that sends. None, as long as no process sends for
-- the default chain: then nobody would send what was moved there either.
--
--  $1  the default chain
--  $2  for how long the chains of a process count after it was last there
with served as materialized (
    select distinct unnest(chains) as chain
    from dispatcher
    where seen_at > now() - $2::interval
        and 'dispatch' = any (roles)
)
select lane.id as "id!", lane.priority::text as "priority!", lane.client as "client!"
from lane
cross join lateral (
    select
    from pending
    where pending.lane = lane.id
        and pending.due_at is not null
    order by pending.due_at
    limit 1
) as waiting
where lane.chain not in (select chain from served)
    and $1 in (select chain from served)
