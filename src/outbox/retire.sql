-- Empties the tables of a day and puts back what is not over: what is still to be done, and what was finished too
-- recently. Both are found by an index, and taken aside by their ids; the rest is not read at all. Answers with how many
-- messages were dropped.
--
-- Several statements, run under a lock of both tables that keeps everybody out. Until it is given back no message of the
-- day can come or be finished; one whose finishing waits for the lock still stands in `pending`, and stays.
--
-- What is in capitals is put in, as in the copying of before.
create temporary table staying on commit drop as
select id
from pending
where id >= 'FIRST'
    and id < 'NEXT'
union all
select message_id
from EVENTS
where finished_at >= 'KEPT_SINCE';

-- Whose copy is missing came meanwhile; whose copy is left over was removed.
insert into staying_message
select day.*
from (
    select id
    from staying
    except
    select id
    from staying_message
) as missing
join MESSAGES as day on day.id = missing.id;

delete from staying_message
using (
    select id
    from staying_message
    except
    select id
    from staying
) as left_over
where staying_message.id = left_over.id;

create temporary table staying_event on commit drop as
select day.*
from staying
join EVENTS as day on day.message_id = staying.id;

truncate MESSAGES, EVENTS;

insert into MESSAGES
select *
from staying_message;

insert into EVENTS
select *
from staying_event;

-- One statement, so one moment: what the tally says of the day and what there is of it. It is corrected by the
-- difference, which is what was dropped.
with corrected as (
    insert into tally (day, status, n)
    select 'DAY', status, sum(n)
    from (
        select status, -n as n
        from tally_sum()
        where day = 'DAY'
        union all
        select status, 1
        from pending
        where id >= 'FIRST'
            and id < 'NEXT'
        union all
        select status, 1
        from EVENTS
        where status is not null
    ) as change
    group by status
    having sum(n) <> 0
    returning n
)
select -coalesce(sum(n), 0)::bigint as dropped
from corrected;
