//! What is known of providers: found out by one process, told to all; and what an operator wants of them.
//!
//! Owns the rows and their words. What a process makes of another's word is its own chain's to say.

use std::collections::BTreeMap;

use serde_json::Value;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{Outbox, OutboxError, error::unreadable, interval::interval, presence::CHAINS_LIVE_FOR};
use crate::{
    delivery::ProviderName,
    health::{Findings, Known, Mode, Opened, Reason, Rest, SharedState},
};

/// A row as it is read.
struct Row {
    provider: String,
    kind: String,
    mode: String,
    open_until: Option<OffsetDateTime>,
    reopened: i32,
    resting_until: Option<OffsetDateTime>,
    resting_reason: Option<String>,
    misconfigured_until: Option<OffsetDateTime>,
    domains: Value,
    version: i64,
}

impl Outbox {
    /// What is known of each provider that a process sends, or sent a short while ago, through; by name. One statement.
    pub async fn provider_states(&self) -> Result<Vec<SharedState>, OutboxError> {
        let statement = || async {
            sqlx::query_as!(
                Row,
                r#"
                select
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
                from provider_state
                where exists (
                    select
                    from dispatcher
                    where provider_state.provider = any (dispatcher.providers)
                        and dispatcher.seen_at > now() - $1::interval
                )
                order by provider
                "#,
                interval(CHAINS_LIVE_FOR)
            )
            .fetch_all(&self.database)
            .await
        };
        self.database.repeat(statement).await?.into_iter().map(read).collect()
    }

    /// Writes down what this process found out of a provider; gives all that is known of it by then, or nothing where no
    /// process has said that it sends through it. One statement.
    pub async fn find_out(
        &self,
        provider: &ProviderName,
        findings: &Findings,
    ) -> Result<Option<SharedState>, OutboxError> {
        let circuit = findings.circuit.flatten();
        let out = findings.domains.iter().filter_map(|(domain, until)| Some((domain, until.as_ref()?)));
        let out = out.map(|(domain, until)| Ok((domain.clone(), Value::String(written(*until)?))));
        let out = Value::Object(out.collect::<Result<_, OutboxError>>()?);
        let set_up = findings.domains.iter().filter(|(_, until)| until.is_none());
        let set_up: Vec<String> = set_up.map(|(domain, _)| domain.clone()).collect();
        let row = sqlx::query_file_as!(
            Row,
            "src/outbox/find_out.sql",
            provider.as_str(),
            findings.circuit.is_some(),
            circuit.map(|opened| opened.until),
            circuit.map_or(0, |opened| i32::try_from(opened.reopened).unwrap_or(i32::MAX)),
            findings.rest.as_ref().map(|rest| rest.until),
            findings.rest.as_ref().and_then(|rest| word_of(&rest.reason)),
            findings.misconfigured_until.is_some(),
            findings.misconfigured_until.flatten(),
            out,
            &set_up
        )
        .fetch_optional(&self.database)
        .await?;
        row.map(read).transpose()
    }

    /// Sets what an operator wants of a provider. Where it is to be in rotation, what is known against it is forgotten: he
    /// may have repaired it. Gives what is known of it, or nothing where no process sends through it.
    /// One statement.
    pub async fn set_provider_mode(
        &self,
        provider: &ProviderName,
        mode: Mode,
    ) -> Result<Option<SharedState>, OutboxError> {
        let statement = || async {
            sqlx::query_as!(
                Row,
                r#"
                update provider_state
                set mode = $2,
                    open_until = case when $2 = 'on' then null else open_until end,
                    resting_until = case when $2 = 'on' then null else resting_until end,
                    resting_reason = case when $2 = 'on' then null else resting_reason end,
                    misconfigured_until = case when $2 = 'on' then null else misconfigured_until end,
                    domains = case when $2 = 'on' then '{}' else domains end,
                    version = version + 1,
                    changed_at = now()
                where provider = $1
                    and exists (
                        select
                        from dispatcher
                        where provider_state.provider = any (dispatcher.providers)
                            and dispatcher.seen_at > now() - $3::interval
                    )
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
                "#,
                provider.as_str(),
                mode.as_str(),
                interval(CHAINS_LIVE_FOR)
            )
            .fetch_optional(&self.database)
            .await
        };
        self.database.repeat(statement).await?.map(read).transpose()
    }
}

fn read(row: Row) -> Result<SharedState, OutboxError> {
    let mode = Mode::parse(&row.mode).ok_or_else(|| unreadable(format_args!("unknown mode {}", row.mode)))?;
    let opened = |until| Opened { until, reopened: u32::try_from(row.reopened).unwrap_or(0) };
    let rest = match row.resting_until.zip(row.resting_reason) {
        Some((until, word)) => Some(Rest { reason: reason_of(&word)?, until }),
        None => None,
    };
    let known = Known {
        circuit: row.open_until.map(opened),
        rest,
        misconfigured_until: row.misconfigured_until,
        domains: read_domains(&row.domains)?,
    };
    Ok(SharedState { provider: ProviderName::new(&row.provider), kind: row.kind, mode, known, version: row.version })
}

fn read_domains(domains: &Value) -> Result<BTreeMap<String, OffsetDateTime>, OutboxError> {
    let domains = domains.as_object().into_iter().flatten();
    let read = |(domain, until): (&String, &Value)| {
        let until = until.as_str().and_then(|until| OffsetDateTime::parse(until, &Rfc3339).ok());
        Some((domain.clone(), until?))
    };
    domains.map(|entry| read(entry).ok_or_else(|| unreadable("a time that is none"))).collect()
}

fn written(time: OffsetDateTime) -> Result<String, OutboxError> {
    time.to_utc().format(&Rfc3339).map_err(unreadable)
}

/// The word for a reason for which a provider rests; others are told by columns of their own.
fn word_of(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Throttled => Some("THROTTLED"),
        Reason::QuotaUsedUp => Some("QUOTA_USED_UP"),
        Reason::AskedToWait => Some("ASKED_TO_WAIT"),
        _ => None,
    }
}

fn reason_of(word: &str) -> Result<Reason, OutboxError> {
    [Reason::Throttled, Reason::QuotaUsedUp, Reason::AskedToWait]
        .into_iter()
        .find(|reason| word_of(reason) == Some(word))
        .ok_or_else(|| unreadable(format_args!("unknown reason {word}")))
}
