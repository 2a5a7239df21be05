-- The newest messages below an id that match, and how many were examined for them: a bounded number of one day, by the
-- index on their ids, however few of them match.
--
--  $1, $2  the first id, and the first that is too new; both of one day
--  $3      how many are examined
--  $4      how many are wanted
--  $5 …    what they have to match; null: anything
with examined as materialized (
    select
        id,
        client,
        accepted_at,
        recipients,
        tags,
        correlation_id,
        document_type
    from message
    where id >= $1
        and id < $2
    order by id desc
    limit $3
),
seen as (
    select
        count(*) as examined,
        (
            select id
            from examined
            order by id
            limit 1
        ) as last
    from examined
),
matched as (
    select
        examined.id,
        examined.client,
        examined.accepted_at,
        examined.correlation_id,
        examined.document_type,
        coalesce(pending.status, final.status)::text as status,
        pending.due_at,
        final.finished_at,
        coalesce(pending.attempts, final.attempts) as attempts,
        coalesce(pending.rounds, final.rounds) as rounds,
        coalesce(pending.last_provider, final.last_provider) as last_provider,
        coalesce(pending.last_class, final.last_class)::text as last_class,
        coalesce(pending.last_code, final.last_code) as last_code
    from examined
    left join lateral (
        select
            id,
            status,
            due_at,
            attempts,
            rounds,
            last_provider,
            last_class,
            last_code
        from pending
        where pending.id = examined.id
        limit 1
    ) as pending on true
    left join lateral (
        select
            event.status,
            event.finished_at,
            event.attempts,
            event.rounds,
            coalesce(event.last_provider, event.provider) as last_provider,
            coalesce(event.last_class, event.class) as last_class,
            coalesce(event.last_code, event.code) as last_code
        from event
        where event.message_id = examined.id
            and event.message_id >= $1
            and event.message_id < $2
            and event.status is not null
            and pending.id is null
        limit 1
    ) as final on true
    where ($5::text is null or examined.client = $5)
        and ($6::text is null or examined.correlation_id = $6)
        and ($7::text is null or examined.document_type = $7)
        and ($8::text is null or examined.tags @> array[$8])
        and (
            $9::text is null
            or exists (
                select
                from unnest(examined.recipients) as recipient
                where lower(recipient) = lower($9)
            )
        )
        and ($10::timestamptz is null or examined.accepted_at >= $10)
        and ($11::timestamptz is null or examined.accepted_at < $11)
        and ($12::text[] is null or coalesce(pending.status, final.status) = any ($12::status[]))
        and ($13::text is null or coalesce(pending.last_provider, final.last_provider) = $13)
        and ($14::text is null or coalesce(pending.last_class, final.last_class) = $14::class)
    order by examined.id desc
    limit $4
)
select
    seen.examined as "examined!",
    seen.last as "last?",
    matched.id as "id?",
    matched.client as "client?",
    matched.accepted_at as "accepted_at?",
    matched.correlation_id as "correlation_id?",
    matched.document_type as "document_type?",
    matched.status as "status?",
    matched.due_at as "due_at?",
    matched.finished_at as "finished_at?",
    matched.attempts as "attempts?",
    matched.rounds as "rounds?",
    matched.last_provider as "last_provider?",
    matched.last_class as "last_class?",
    matched.last_code as "last_code?"
from seen
left join matched on true
order by matched.id desc
