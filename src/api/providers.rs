//! Providers as operators see them: their mode, and what all processes know of them.
//!
//! Owns the words; what is known is the outbox's, since a process that answers calls need not send.

use time::OffsetDateTime;
use tonic::Status;

use super::{status, to_proto};
use crate::{
    health::{Mode, Opened, Reason, SharedState, to_the_second},
    proto::v1 as pb,
};

/// A provider as it stands at that time.
pub(super) fn provider(state: &SharedState, now: OffsetDateTime) -> pb::Provider {
    let circuit = match state.known.circuit {
        None => pb::CircuitState::Closed,
        Some(Opened { until, .. }) if until > now => pb::CircuitState::Open,
        Some(_) => pb::CircuitState::HalfOpen,
    };
    pb::Provider {
        name: state.provider.as_str().to_owned(),
        kind: state.kind.clone(),
        mode: mode(state.mode).into(),
        circuit: circuit.into(),
        resting_until: state.known.waiting(now).map(|(_, until)| to_proto::timestamp(until)),
        reason: reasons(state, now).join("; "),
    }
}

/// The mode that is asked for.
pub(super) fn read_mode(mode: i32) -> Result<Mode, Status> {
    match pb::ProviderMode::try_from(mode) {
        Ok(pb::ProviderMode::On) => Ok(Mode::On),
        Ok(pb::ProviderMode::Off) => Ok(Mode::Off),
        Ok(pb::ProviderMode::Drain) => Ok(Mode::Drain),
        Ok(pb::ProviderMode::Unspecified) => Err(status::invalid_field("mode", "is missing")),
        Err(_) => Err(status::invalid_field("mode", format!("has no value {mode}"))),
    }
}

fn mode(mode: Mode) -> pb::ProviderMode {
    match mode {
        Mode::On => pb::ProviderMode::On,
        Mode::Off => pb::ProviderMode::Off,
        Mode::Drain => pb::ProviderMode::Drain,
    }
}

/// Everything for which it is not asked.
fn reasons(state: &SharedState, now: OffsetDateTime) -> Vec<String> {
    let SharedState { provider, known, .. } = state;
    let until = |reason: Reason, until: OffsetDateTime| match until > now {
        true => format!("{} until {}", reason.of(provider), to_the_second(until)),
        false => format!("{}, and is tried again", reason.of(provider)),
    };
    let by_operator = match state.mode {
        Mode::On => None,
        Mode::Off => Some(Reason::TurnedOff.of(provider)),
        Mode::Drain => Some(Reason::Draining.of(provider)),
    };
    let open = known.circuit.filter(|opened| opened.until > now).map(|opened| until(Reason::CircuitOpen, opened.until));
    let rest = known.rest.iter().filter(|rest| rest.until > now).map(|rest| until(rest.reason.clone(), rest.until));
    let misconfigured = known.misconfigured_until.map(|at| until(Reason::Misconfigured, at));
    let domains = known.domains.iter();
    let domains = domains.map(|(domain, at)| until(Reason::MisconfiguredForSenderDomain(domain.clone()), *at));
    by_operator.into_iter().chain(open).chain(rest).chain(misconfigured).chain(domains).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use time::{Duration, macros::datetime};

    use super::*;
    use crate::{
        delivery::ProviderName,
        health::{Known, Rest},
    };

    const NOW: OffsetDateTime = datetime!(2026-12-01 12:00 UTC);

    fn state(mode: Mode, known: Known) -> SharedState {
        SharedState { provider: ProviderName::new("primary"), kind: "http".into(), mode, known, version: 1 }
    }

    #[test]
    fn a_provider_that_is_well_has_no_reason() {
        let shown = provider(&state(Mode::On, Known::default()), NOW);
        assert_eq!((shown.mode(), shown.circuit()), (pb::ProviderMode::On, pb::CircuitState::Closed));
        assert_eq!((shown.resting_until, shown.reason.as_str()), (None, ""));
    }

    #[test]
    fn every_reason_is_named_and_the_longest_wait_given() {
        let known = Known {
            circuit: Some(Opened { until: NOW + Duration::SECOND, reopened: 0 }),
            rest: Some(Rest { reason: Reason::QuotaUsedUp, until: NOW + Duration::HOUR }),
            misconfigured_until: Some(NOW),
            domains: BTreeMap::from([("shop.example".to_owned(), NOW + Duration::MINUTE)]),
        };
        let shown = provider(&state(Mode::Off, known), NOW);
        assert_eq!((shown.mode(), shown.circuit()), (pb::ProviderMode::Off, pb::CircuitState::Open));
        assert_eq!(shown.resting_until, Some(to_proto::timestamp(NOW + Duration::HOUR)));
        assert_eq!(
            shown.reason,
            "provider primary is turned off by an operator; \
             circuit of provider primary is open until 2026-12-01T12:00:01Z; \
             quota of provider primary is used up until 2026-12-01T13:00:00Z; \
             provider primary is misconfigured, and is tried again; \
             provider primary is misconfigured for sender domain shop.example until 2026-12-01T12:01:00Z"
        );
    }

    #[test]
    fn what_has_passed_is_no_reason() {
        let known = Known {
            circuit: Some(Opened { until: NOW, reopened: 2 }),
            rest: Some(Rest { reason: Reason::Throttled, until: NOW }),
            ..Known::default()
        };
        let shown = provider(&state(Mode::Drain, known), NOW);
        assert_eq!(shown.circuit(), pb::CircuitState::HalfOpen);
        assert_eq!(shown.reason, "provider primary is being drained for an operator");
        assert_eq!(shown.resting_until, None);
    }

    #[test]
    fn a_mode_has_to_be_one() {
        for word in [pb::ProviderMode::On, pb::ProviderMode::Off, pb::ProviderMode::Drain] {
            assert_eq!(read_mode(word.into()).map(mode).ok(), Some(word));
        }
        for nonsense in [0, 4, -1] {
            assert!(read_mode(nonsense).is_err(), "{nonsense}");
        }
    }
}
