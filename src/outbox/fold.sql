-- Replaces the older rows of the tally by their sums: the new opening balance. Answers with how many rows it took in,
-- those of the last balance not counted.
--
-- The balance says from where on rows have to be read: from the first that is left, or may still come from a transaction
-- that is under way. A row younger than every transaction of this server comes from another, from which the database was
-- copied; it is taken in like any.
--
--  $1  how many rows at most
with bounds as materialized (
    select
        tally_from() as first,
        pg_snapshot_xmin(pg_current_snapshot()) as under_way,
        pg_snapshot_xmax(pg_current_snapshot()) as unborn
),
opening as materialized (
    select tally.ctid as place, tally.day, tally.status, tally.n, tally.xact
    from bounds
    join tally on tally.xact >= bounds.first
    where tally.is_opening
),
written as materialized (
    select tally.ctid as place, tally.day, tally.status, tally.n, tally.xact
    from bounds
    join tally on tally.xact >= bounds.first
    where not tally.is_opening
    order by tally.xact
    limit $1
),
taken as materialized (
    select place, day, status, n, xact
    from opening
    union all
    select place, day, status, n, xact
    from written
),
gone as (
    delete from tally
    using taken
    where tally.ctid = taken.place
),
-- What is not taken in is no older than the last that is.
left_over as materialized (
    select least(bounds.under_way, last.xact) as xact
    from bounds
    left join lateral (
        select taken.xact
        from taken
        where taken.xact < bounds.unborn
        order by taken.xact desc
        limit 1
    ) as last on true
),
balance as (
    insert into tally (day, status, n, xact, is_opening)
    select taken.day, taken.status, sum(taken.n), left_over.xact, true
    from taken
    cross join left_over
    group by taken.day, taken.status, left_over.xact
    having sum(taken.n) <> 0
    union all
    -- Also where nothing is left to count, there is a balance that says from where on.
    select date '1970-01-01', 'NOT_YET_SENT', 0, left_over.xact, true
    from left_over
)
select count(*) as "count!"
from written
