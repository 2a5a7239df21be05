-- Messages with their history, a row for each line of it (one for a message that has none yet). Each look-up is by id.
--
-- No other days are opened than those of the ids: the bounds are known when the statement is planned, the ids are not.
-- So nobody who asks has to wait for a change of another day's tables, nor does it wait for him.
--
-- Those that whoever asks has seen as they are now are left out. What is compared says where a message stands and how
-- long its history is, but not until when somebody has it: a lease that is renewed is no news.
--
--  $1      the messages
--  $2      the client whose they must be; null: anybody's
--  $3, $4  the first and the last of the ids
--  $5      how whoever asks has seen each of them: the version that came with it; null: not at all
select
    message.id as "id!",
    present.version as "version!",
    message.client as "client!",
    coalesce(pending.status, final.status)::text as "status!",
    message.accepted_at as "accepted_at!",
    pending.due_at as "due_at?",
    final.finished_at as "finished_at?",
    coalesce(pending.rounds, final.rounds) as "rounds!",
    coalesce(lane.chain, message.chain) as "chain!",
    lane.priority::text as "priority?",
    coalesce(lane.paused, false) as "is_paused!",
    pending.provider as "provider?",
    message.correlation_id as "correlation_id!",
    message.document_type as "document_type?",
    cardinality(message.recipients) as "recipient_count!",
    case when history.nth is null or history.nth = 1 then message.recipients end as recipients,
    history.kind::text as "kind?",
    history.at as "at?",
    history.round as "round?",
    history.provider as "event_provider?",
    history.class::text as "class?",
    history.scope::text as "scope?",
    history.code as "code?",
    history.detail as "detail?",
    history.provider_message_id as "provider_message_id?",
    history.duration_us as "duration_us?",
    history.offered as "offered?",
    history.verdicts as "verdicts?",
    history.skipped as "event_skipped?",
    pending.skipped as "skipped?",
    case when pending.hold and pending.unknown_since is not null then pending.provider end as "bound_to?"
from unnest($1::uuid[], $5::text[]) with ordinality as wanted (id, seen, nth)
cross join lateral (
    select
        id,
        client,
        accepted_at,
        chain,
        correlation_id,
        document_type,
        recipients
    from message
    where message.id = wanted.id
        and message.id >= $3
        and message.id <= $4
        and ($2::text is null or message.client = $2)
    limit 1
) as message
left join lateral (
    select
        id,
        status,
        due_at,
        rounds,
        provider,
        lane,
        hold,
        unknown_since,
        skipped
    from pending
    where pending.id = wanted.id
    limit 1
) as pending on true
-- It may have moved from the chain that it was accepted for.
left join lane on lane.id = pending.lane
left join lateral (
    select status, finished_at, rounds
    from event
    where event.message_id = wanted.id
        and event.message_id >= $3
        and event.message_id <= $4
        and event.status is not null
        and pending.id is null
    limit 1
) as final on true
left join lateral (
    select event.ordinal
    from event
    where event.message_id = wanted.id
        and event.message_id >= $3
        and event.message_id <= $4
    order by event.ordinal desc
    limit 1
) as latest on true
cross join lateral (
    select concat_ws(
        '/',
        coalesce(pending.status, final.status)::text,
        coalesce(latest.ordinal, 0)::text,
        pending.rounds::text,
        pending.provider,
        case when pending.status <> 'IN_PROCESS' then extract(epoch from pending.due_at)::text end
    ) as version
) as present
left join lateral (
    select
        row_number() over (order by ordinal) as nth,
        ordinal,
        kind,
        at,
        round,
        provider,
        class,
        scope,
        code,
        detail,
        provider_message_id,
        duration_us,
        offered,
        verdicts,
        skipped
    from event
    where event.message_id = wanted.id
        and event.message_id >= $3
        and event.message_id <= $4
        -- Nothing is read of what was seen.
        and present.version is distinct from wanted.seen
) as history on true
where present.version is distinct from wanted.seen
order by wanted.nth, history.ordinal
