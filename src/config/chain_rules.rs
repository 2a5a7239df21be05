//! What must hold for chains and for the routes that lead to them.
//!
//! Owns these checks only; the dispatcher and the API rely on them.

use std::collections::BTreeSet;

use super::{
    Chain, DEFAULT_CHAIN, Role, Route, Settings,
    problem::{Problems, nearest},
    provider_rules::check_name,
    value::Value,
};

/// Checks the chains and the routes.
pub(super) fn check(settings: &Settings, problems: &mut Problems) {
    check_default(settings, problems);
    let mut before: Vec<&str> = Vec::new();
    for (name, chain) in &settings.chains {
        check_name("chains", name, &before, problems);
        before.push(name);
        check_chain(&format!("chains.{name}"), chain, settings, problems);
    }
    for (nth, route) in settings.routes.iter().enumerate() {
        check_route(&format!("routes[{nth}]"), route, settings, problems);
    }
}

/// What is no mistake, but hardly meant.
pub(super) fn warnings(settings: &Settings) -> Vec<String> {
    let mut warnings = Vec::new();
    let met_by_all = settings.routes.iter().position(Route::is_met_by_all);
    if let Some(all) = met_by_all {
        let behind = all + 1..settings.routes.len();
        warnings.extend(
            behind.map(|nth| format!("routes[{nth}]: is never reached, since every message meets routes[{all}]")),
        );
    }
    // Who answers no calls decides for no chain.
    if settings.process.roles.has(Role::Api) {
        let mut reached: BTreeSet<&str> = settings.routes.iter().map(|route| route.chain.as_str()).collect();
        reached.insert(DEFAULT_CHAIN);
        let idle = settings.chains.keys().filter(|name| !reached.contains(name.as_str()));
        warnings.extend(idle.map(|name| format!("chains.{name}: no route leads to it, so no message takes it")));
    }
    warnings
}

fn check_default(settings: &Settings, problems: &mut Problems) {
    let default = format!("chains.{DEFAULT_CHAIN}");
    // Who does not send needs no provider.
    let sends = settings.process.roles.has(Role::Dispatch);
    let is_missing = !settings.chains.contains_key(DEFAULT_CHAIN);
    if sends && is_missing && problems.is_sound(&default) && problems.is_sound("chains") {
        problems.add(&default, None, "missing, expected the names of providers, first the one that is asked first");
    }
}

fn check_chain(path: &str, chain: &Chain, settings: &Settings, problems: &mut Problems) {
    if chain.positions().is_empty() {
        problems.add(path, Some("[]"), "expected at least one provider");
    }
    let mut seen = BTreeSet::new();
    for provider in chain.providers() {
        let shown = provider.to_owned().show();
        if !seen.insert(provider) {
            problems.add(path, Some(&shown), "stands in it twice, expected once");
        } else if !settings.providers.contains_key(provider) {
            let hint = did_you_mean(provider, settings.providers.keys());
            problems.add(path, Some(&shown), &format!("there is no provider of that name{hint}"));
        }
    }
}

fn check_route(path: &str, route: &Route, settings: &Settings, problems: &mut Problems) {
    let at = |key: &str| format!("{path}.{key}");
    // Who does not send may leave the chains to those who do.
    let knows_chains = settings.process.roles.has(Role::Dispatch) || !settings.chains.is_empty();
    if knows_chains && problems.is_sound(&at("chain")) && !settings.chains.contains_key(&route.chain) {
        let hint = did_you_mean(&route.chain, settings.chains.keys());
        problems.add(&at("chain"), Some(&route.chain.show()), &format!("there is no chain of that name{hint}"));
    }
    for (key, domains) in [("sender_domains", &route.sender_domains), ("recipient_domains", &route.recipient_domains)] {
        for domain in domains.iter().filter(|domain| !is_domain_pattern(domain)) {
            let what =
                "expected a domain such as \"example.com\", or \"*.example.com\" for all below it; in ASCII (xn--…)";
            problems.add(&at(key), Some(&domain.show()), what);
        }
    }
    for word in route.priorities.iter().filter(|word| !["HIGH", "NORMAL", "BULK"].contains(&word.as_str())) {
        problems.add(&at("priorities"), Some(&word.show()), "expected \"HIGH\", \"NORMAL\" or \"BULK\"");
    }
}

fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> String {
    let meant = nearest(name, known.map(String::as_str));
    meant.map(|meant| format!(", did you mean \"{meant}\"?")).unwrap_or_default()
}

fn is_domain_pattern(pattern: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let domain = pattern.strip_prefix("*.").unwrap_or(pattern);
    domain.len() <= 253 && domain.split('.').all(label)
}
