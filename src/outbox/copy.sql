-- Copies the messages of a day that are not over, before the day is locked: reading them takes longest, and a message
-- never changes.
--
-- What is in capitals is put in: the day's own tables, since their parents are everybody's; its first id and that of
-- the next day; since when what was finished is kept. Rows are taken as they are, with columns that migrations have
-- added since.
create temporary table staying_message on commit drop as
select day.*
from (
    select id
    from pending
    where id >= 'FIRST'
        and id < 'NEXT'
    union all
    select message_id
    from EVENTS
    where finished_at >= 'KEPT_SINCE'
) as staying
join MESSAGES as day on day.id = staying.id;

create index on staying_message (id);
