-- Moves messages from one lane into another, those first that are due first. What somebody holds is left to him as long
-- as his lease lasts: its row changes nothing but its lane.
--
--  $1, $2  the lanes
--  $3      how many at most
update pending
set lane = $2
where ctid = any (array(
    select pending.ctid
    from pending
    where pending.lane = $1
        and pending.due_at is not null
        and (pending.status <> 'IN_PROCESS' or pending.due_at < now())
    order by pending.due_at
    limit $3
    for update of pending skip locked
))
