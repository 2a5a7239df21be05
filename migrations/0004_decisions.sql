-- Which providers were considered for a message and not asked, and why: [{"provider", "reason", "until"}], without
-- "until" where that does not change for this message.
--
-- Why: whoever looks at a message has to learn why it went where it went, and why it waits or waits for a person.
--
-- Safe while an older version runs: it leaves both columns as they are. What it writes is without a record, and a record
-- of before may stay in a row that it settles until a newer version settles it. The columns are added in a moment, but not
-- before whoever reads history in a long transaction has ended, and meanwhile others wait behind it.

-- For an attempt: those considered since the attempt before it, in the same round. For what ended a message instead of an
-- attempt: those considered since the last.
alter table event add column skipped jsonb;

-- Those considered in the last round since its last attempt. Null where there were none: nearly always.
alter table pending add column skipped jsonb;
