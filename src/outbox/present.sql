-- Says that a process is there, and counts the others that send: in all, and through each of its providers. Whoever has
-- not been heard of for long is forgotten.
--
--  $1 … $4  the process: its id, version, roles, and the chains of its settings
--  $5, $6   its providers, and what kind of sender each is
--  $7       how long a word counts
--  $8       after how long a process is forgotten
with present as (
    insert into dispatcher (id, started_at, seen_at, version, roles, chains, providers)
    values ($1, now(), now(), $2, $3::text[], $4, $5::text[])
    on conflict (id) do update
    set seen_at = excluded.seen_at
),
forgotten as (
    delete from dispatcher
    where seen_at < now() - $8::interval
        and id <> $1
),
known as (
    insert into provider_state (provider, kind)
    select mine.provider, mine.kind
    from unnest($5::text[], $6::text[]) as mine (provider, kind)
    where not exists (
        select
        from provider_state
        where provider_state.provider = mine.provider
            and provider_state.kind = mine.kind
    )
    on conflict (provider) do update
    set kind = excluded.kind
),
others as (
    select id, providers
    from dispatcher
    where id <> $1
        and seen_at > now() - $7::interval
        and 'dispatch' = any (roles)
),
rivals as (
    select mine.nth, count(others.id) as all_of_them, count(others.id) filter (where others.id < $1) as before
    from unnest($5::text[]) with ordinality as mine (provider, nth)
    left join others
        on others.providers is null
        or mine.provider = any (others.providers)
    group by mine.nth
)
select
    (select count(*) from others) as "others!",
    array(select all_of_them from rivals order by nth) as "rivals!",
    array(select before from rivals order by nth) as "before!",
    (select coalesce(sum(version), 0)::bigint from provider_state) as "states!"
