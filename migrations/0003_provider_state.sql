-- What processes know of providers: what one of them found out, and what an operator wants.
--
-- Why: an account belongs to all processes that send through it. A fresh one should not ask a provider that all others
-- know to be down, an operator's word has to reach every one of them, and the account's limits are shared among those
-- that are there.
--
-- Safe while an older version runs: it neither reads nor writes this, and says of no provider that it sends through it,
-- so the others count it for every one.

-- One row a provider, made by whoever first sends through it. Written when something changes, never for a message.
create table provider_state (
    -- Its name in the settings.
    provider text primary key,
    -- What kind of sender it is: 'http', 'smtp', …
    kind text not null,
    -- What an operator wants: in rotation, not asked at all, or nothing new for it.
    mode text not null default 'on' check (mode in ('on', 'off', 'drain')),
    -- Until when its circuit is open; from then on it is half-open. Null: it is closed.
    open_until timestamptz,
    -- How often it has re-opened since it was last closed.
    reopened integer not null default 0,
    -- Until when it rests by its own word, and why.
    resting_until timestamptz,
    resting_reason text check (resting_reason in ('THROTTLED', 'QUOTA_USED_UP', 'ASKED_TO_WAIT')),
    -- Until when it is left out because our account is not set up. Null: it is.
    misconfigured_until timestamptz,
    -- The sender domains that are not set up at it: domain to the time until which it is left out for it.
    domains jsonb not null default '{}',
    -- Grows with each change: by it processes see that there is something new.
    version bigint not null default 1,
    changed_at timestamptz not null default now(),
    check ((resting_until is null) = (resting_reason is null))
) with (vacuum_truncate = false);

-- The providers of a process's settings; null: it does not say.
alter table dispatcher add column providers text[];
