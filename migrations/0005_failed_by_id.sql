-- Messages that wait for a person, newest first.
--
-- Why: whoever looks at them, or has them tried again, must not read a backlog or a history for the few that there are.
--
-- Safe while an older version runs: it changes no column. Accepts and claims wait while the index is built, for moments:
-- `pending` holds only what is not finished.

-- Its rows come and go with failures: there is none on the way of a message that is sent.
create index pending_failed_by_id on pending (id) where failed_at is not null;
