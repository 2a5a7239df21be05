-- Says that a process is there, and counts the others that send. Whoever has not been heard of for long is forgotten.
--
--  $1 … $4  the process: its id, version, roles, and the chains of its settings
--  $5       how long a word counts
--  $6       after how long a process is forgotten
with present as (
    insert into dispatcher (id, started_at, seen_at, version, roles, chains)
    values ($1, now(), now(), $2, $3::text[], $4)
    on conflict (id) do update
    set seen_at = excluded.seen_at
),
forgotten as (
    delete from dispatcher
    where seen_at < now() - $6::interval
        and id <> $1
)
select count(*) as "others!"
from dispatcher
where id <> $1
    and seen_at > now() - $5::interval
    and 'dispatch' = any (roles)
