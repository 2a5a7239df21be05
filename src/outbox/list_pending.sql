-- The newest messages below an id that are not finished and match, and how many were examined for them. What is examined
-- is what is still to be done: what has been finished, however much it is, costs nothing.
--
--  $1, $2  the first id, and the first that is too new; both of one day
--  $3      how many are examined
--  $4      how many are wanted
--  $5 …    what they have to match; null: anything
--  $15     whether only those are examined that wait for a person, by an index of their own
with examined as materialized (
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
    where id >= $1
        and id < $2
        and (not $15::boolean or failed_at is not null)
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
        message.client,
        message.accepted_at,
        message.correlation_id,
        message.document_type,
        examined.status::text as status,
        examined.due_at,
        null::timestamptz as finished_at,
        examined.attempts,
        examined.rounds,
        examined.last_provider,
        examined.last_class::text as last_class,
        examined.last_code
    from examined
    cross join lateral (
        select
            client,
            accepted_at,
            recipients,
            tags,
            correlation_id,
            document_type
        from message
        where message.id = examined.id
            and message.id >= $1
            and message.id < $2
        limit 1
    ) as message
    where ($5::text is null or message.client = $5)
        and ($6::text is null or message.correlation_id = $6)
        and ($7::text is null or message.document_type = $7)
        and ($8::text is null or message.tags @> array[$8])
        and (
            $9::text is null
            or exists (
                select
                from unnest(message.recipients) as recipient
                where lower(recipient) = lower($9)
            )
        )
        and ($10::timestamptz is null or message.accepted_at >= $10)
        and ($11::timestamptz is null or message.accepted_at < $11)
        and ($12::text[] is null or examined.status = any ($12::status[]))
        and ($13::text is null or examined.last_provider = $13)
        and ($14::text is null or examined.last_class = $14::class)
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
