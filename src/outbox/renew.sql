-- Lets leases last on from now, of those that still hold; answers with them.
--
--  $1, $2  messages and tokens
--  $3      how long they last
with held as materialized (
    select found.id
    from (
        select id, token
        from unnest($1::uuid[], $2::bigint[]) as lease (id, token)
        order by id
    ) as lease
    -- Each row is looked for by its id, whatever Postgres believes of the size of the table.
    cross join lateral (
        select pending.id
        from pending
        where pending.id = lease.id
            and pending.token = lease.token
        limit 1
        for update
    ) as found
)
update pending
set due_at = now() + $3::interval
where id = any (array(select id from held))
returning id, token as "token!", cancel_requested
