-- Writes down what a process found out of a provider, and gives all that is known of it. What it says nothing of stays.
-- A rest is never cut short, since others may have been told of a longer one.
--
--  $1       the provider
--  $2 … $4  whether it says something of the circuit; until when that is open, null: closed; how often it re-opened
--  $5, $6   until when it rests, null: nothing is said; why
--  $7, $8   whether it says something of the account; until when that is left out, null: it is set up
--  $9       sender domains that are not set up, as in the table
--  $10      sender domains that are set up again
update provider_state
set open_until = case when $2 then $3 else open_until end,
    reopened = case when $2 then $4 else reopened end,
    resting_until = greatest(resting_until, $5::timestamptz),
    resting_reason = case when $5 > coalesce(resting_until, '-infinity') then $6 else resting_reason end,
    misconfigured_until = case when $7 then $8 else misconfigured_until end,
    domains = (domains || $9) - $10::text[],
    version = version + 1,
    changed_at = now()
where provider = $1
returning
    provider,
    kind,
    mode,
    open_until,
    reopened,
    resting_until,
    resting_reason,
    misconfigured_until,
    domains,
    version
