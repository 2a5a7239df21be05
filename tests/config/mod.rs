//! Settings from files and environments as a user writes them.

#![allow(clippy::unwrap_used)]

mod mistakes;

use std::{fs, path::Path, time::Duration};

use postrider::{
    config::{self, Chain, Position, ProviderKind, Settings, SettingsErrors, SmtpTls, WhenBusy},
    delivery::{Growth, RetryPolicy},
};
use secrecy::ExposeSecret;
use tempfile::TempDir;

/// What makes settings whole: a database, a provider, a chain.
const WHOLE: &str = r#"
[database]
url = "postgres://postrider:DbPassword@localhost/postrider"
[providers.relay]
kind = "smtp"
host = "smtp.example.com"
[chains]
default = ["relay"]
"#;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Reads that text as the settings file, in that environment.
    fn load(&self, text: &str, environment: &[(&str, &str)]) -> Result<Settings, SettingsErrors> {
        let file = self.write("settings.toml", text);
        config::load(Some(file.as_ref()), environment.iter().copied())
    }
}

fn load(text: &str, environment: &[(&str, &str)]) -> Result<Settings, SettingsErrors> {
    Place::new().load(text, environment)
}

fn smtp<'a>(settings: &'a Settings, name: &str) -> &'a config::SmtpProvider {
    match &settings.providers[name].kind {
        ProviderKind::Smtp(smtp) => smtp,
        _ => panic!("{name} is not SMTP"),
    }
}

#[test]
fn no_secret_is_ever_printed() {
    let place = Place::new();
    let token = place.write("token", "TokenSecret\n");
    let text = format!(
        "{WHOLE}[providers.gateway]\nkind = \"http\"\nurl = \"https://host/mail?key=QuerySecret\"\ntoken_file = {token:?}\n"
    );
    let environment =
        [("POSTRIDER_PROVIDERS__RELAY__USERNAME", "user"), ("POSTRIDER_PROVIDERS__RELAY__PASSWORD", "RelaySecret")];
    let settings = place.load(&text, &environment).unwrap();
    let secrets = ["DbPassword", "TokenSecret", "QuerySecret", "RelaySecret"];
    for printed in [format!("{settings:?}"), format!("{settings:#?}"), settings.summary()] {
        assert!(printed.contains("relay") && secrets.iter().all(|secret| !printed.contains(secret)), "{printed}");
    }
    // The same with each secret in settings that are wrong, in its own place or in another's.
    for (name, value) in [
        ("POSTRIDER_DATABASE__URL", "DbPassword"),
        ("POSTRIDER_DATABASE__MAX_CONNECTIONS", "0"),
        ("POSTRIDER_PROVIDERS__RELAY__PASSWORD__X", "RelaySecret"),
        ("POSTRIDER_PROVIDERS__RELAY__PASWORD", "RelaySecret"),
        ("POSTRIDER_PROVIDERS__RELAY__HOST", "user:RelaySecret@host"),
        ("POSTRIDER_PROVIDERS__RELAY__PASSWORD_FILE", &token),
        ("POSTRIDER_PROVIDERS__GATEWAY__URL", "https://user:TokenSecret@host/?key=QuerySecret"),
        ("POSTRIDER_PROVIDERS__GATEWAY__TOKEN", "TokenSecret"),
    ] {
        let mut environment = environment.to_vec();
        environment.push((name, value));
        let errors = place.load(&text, &environment).expect_err(name);
        for printed in [errors.to_string(), format!("{errors:?}")] {
            assert!(secrets.iter().all(|secret| !printed.contains(secret)), "{name}: {printed}");
        }
    }
}

#[test]
fn the_environment_goes_before_the_file() {
    let settings = load(
        &format!("[retry]\nmax_rounds = 5\npause = \"10s\"\n{WHOLE}"),
        &[
            ("POSTRIDER_RETRY__MAX_ROUNDS", "7"),
            ("POSTRIDER_RETRY__JITTER", "0"),
            ("POSTRIDER_RETRY__PAUSE", ""),
            ("POSTRIDER_POLICY__DOCUMENT_TYPES", "INVOICE, REMINDER"),
            ("POSTRIDER_PROVIDERS__RELAY__BREAKER__MIN_CALLS", "20"),
            // What Kubernetes adds for a service named postrider, and another program's.
            ("POSTRIDER_PORT", "tcp://10.0.0.1:50051"),
            ("POSTRIDER_SERVICE_HOST", "10.0.0.1"),
            ("OTHER__THING", "x"),
        ],
    )
    .unwrap();
    assert_eq!(settings.retry.max_rounds, 7);
    assert_eq!(settings.retry.jitter, 0.0);
    assert_eq!(settings.retry.pause, Duration::from_secs(10));
    assert_eq!(settings.policy.document_types, ["INVOICE", "REMINDER"]);
    assert_eq!(settings.providers["relay"].breaker.min_calls, 20);
}

#[test]
fn a_provider_is_found_in_the_environment_whatever_its_case_and_dashes() {
    let text = WHOLE.replace("relay", "EU-relay_2");
    let settings = load(
        &text,
        &[
            ("POSTRIDER_PROVIDERS__EU_RELAY_2__USERNAME", "12345"),
            ("POSTRIDER_PROVIDERS__EU_RELAY_2__PASSWORD", "007"),
            ("POSTRIDER_PROVIDERS__EU_RELAY_2__TLS", "implicit"),
        ],
    )
    .unwrap();
    assert_eq!(settings.providers.keys().collect::<Vec<_>>(), ["EU-relay_2"]);
    let smtp = smtp(&settings, "EU-relay_2");
    assert_eq!(smtp.username.as_deref(), Some("12345"));
    assert_eq!(smtp.password.as_ref().unwrap().expose_secret(), "007");
    assert_eq!(smtp.tls, SmtpTls::Implicit);
}

#[test]
fn everything_can_come_from_the_environment() {
    let nowhere = Place::new();
    let settings = config::load_in(
        nowhere.0.path(),
        None,
        [
            ("POSTRIDER_DATABASE__URL", "postgres://localhost/postrider"),
            ("POSTRIDER_PROVIDERS__GATEWAY__KIND", "http"),
            ("POSTRIDER_PROVIDERS__GATEWAY__URL", "http://localhost:8025"),
            ("POSTRIDER_CHAINS__DEFAULT", "gateway"),
        ],
    )
    .unwrap();
    assert_eq!(settings.chains["default"].providers().collect::<Vec<_>>(), ["gateway"]);
    assert_eq!(settings.providers["gateway"].concurrency, 32);
}

#[test]
fn a_secret_can_be_in_a_file() {
    let place = Place::new();
    let url = place.write("url", "postgres://localhost/from_file\r\n");
    let password = place.write("password", " with spaces \n");
    let text = WHOLE.replace("url = \"postgres://postrider:DbPassword@localhost/postrider\"", "");
    let settings = place
        .load(
            &text,
            &[
                ("POSTRIDER_DATABASE__URL_FILE", &url),
                ("POSTRIDER_PROVIDERS__RELAY__USERNAME", "user"),
                ("POSTRIDER_PROVIDERS__RELAY__PASSWORD_FILE", &password),
            ],
        )
        .unwrap();
    assert_eq!(settings.database.url.as_ref().unwrap().expose_secret(), "postgres://localhost/from_file");
    let relay = smtp(&settings, "relay");
    assert_eq!(relay.password.as_ref().unwrap().expose_secret(), " with spaces ");
    assert_eq!((&settings.database.url_file, &relay.password_file), (&None, &None));
}

#[test]
fn the_file_is_the_one_asked_for_else_the_one_named_else_the_usual_one() {
    let place = Place::new();
    let rounds = |rounds: u32| format!("[retry]\nmax_rounds = {rounds}\n{WHOLE}");
    let asked_for = place.write("asked-for.toml", &rounds(1));
    let named = place.write("named.toml", &rounds(2));
    place.write("postrider.toml", &rounds(3));
    let found = |file: Option<&str>, environment: &[(&str, &str)]| {
        let settings = config::load_in(place.0.path(), file.map(Path::new), environment.iter().copied()).unwrap();
        settings.retry.max_rounds
    };
    assert_eq!(found(Some(&asked_for), &[("POSTRIDER_CONFIG", &named)]), 1);
    assert_eq!(found(None, &[("POSTRIDER_CONFIG", &named)]), 2);
    assert_eq!(found(None, &[]), 3);
}

#[test]
fn what_is_hardly_meant_is_a_warning() {
    let text = format!("{WHOLE}[providers.gateway]\nkind = \"http\"\nurl = \"http://gateway/\"\ntoken = \"t\"\n");
    assert_eq!(
        load(&text, &[]).unwrap().warnings(),
        [
            "providers.gateway: stands in no chain, so it is never asked",
            "providers.gateway.url: the token is sent over it without TLS",
        ]
    );
}

#[test]
fn a_key_in_a_file_is_read_and_never_printed_and_goes_over_tls_alone() {
    let place = Place::new();
    let key = place.write("key", "KeySecret\n");
    let text = format!(
        "{WHOLE}[providers.mail]\nkind = \"postmark\"\nkey_file = {key:?}\nurl = \"http://proxy.example/?k=UrlSecret\"\n"
    );
    let settings = place.load(&text, &[("POSTRIDER_CHAINS__DEFAULT", "relay,mail")]).unwrap();
    let ProviderKind::Api(api) = &settings.providers["mail"].kind else { panic!("not an API") };
    assert_eq!(api.key.as_ref().unwrap().expose_secret(), "KeySecret");
    for printed in [format!("{settings:?}"), settings.summary()] {
        assert!(printed.contains("proxy.example"), "{printed}");
        assert!(!printed.contains("KeySecret") && !printed.contains("UrlSecret"), "{printed}");
    }
    assert_eq!(settings.warnings(), ["providers.mail.url: the key is sent over it without TLS"]);
}

#[test]
fn a_chain_without_a_way_to_it_and_a_route_that_nothing_reaches_are_warnings() {
    let routes = "[[routes]]\nchain = \"bulk\"\n[[routes]]\nchain = \"default\"\ntags = [\"a\"]\n";
    let text = format!("{WHOLE}bulk = [\"relay\"]\nspare = [\"relay\"]\n{routes}");
    let warnings = [
        "routes[1]: is never reached, since every message meets routes[0]",
        "chains.spare: no route leads to it, so no message takes it",
    ];
    assert_eq!(load(&text, &[]).unwrap().warnings(), warnings);
    // Who answers no calls need not know the routes.
    let sends = load(&text, &[("POSTRIDER_PROCESS__ROLES", "dispatch")]).unwrap();
    assert_eq!(sends.warnings(), warnings[..1]);
}

#[test]
fn a_process_that_does_not_send_may_leave_the_chains_to_others() {
    let text = "[database]\nurl = \"postgres://localhost/postrider\"\n[[routes]]\nchain = \"bulk\"\n";
    let settings = load(text, &[("POSTRIDER_PROCESS__ROLES", "api")]).unwrap();
    assert_eq!(settings.routes[0].chain, "bulk");
    load(text, &[("POSTRIDER_PROCESS__ROLES", "api,dispatch")]).unwrap_err();
}

#[test]
fn routes_keep_their_order_and_places_are_shared_by_weight() {
    let routes = "[[routes]]\nchain = \"bulk\"\npriorities = [\"BULK\"]\n[[routes]]\nchain = \"default\"\n";
    let text = format!(
        "{WHOLE}bulk = [{{ relay = 3, east = 1 }}, \"west\"]\n\
         [providers.east]\nkind = \"smtp\"\nhost = \"east\"\nwhen_busy = \"next\"\n\
         [providers.west]\nkind = \"smtp\"\nhost = \"west\"\n{routes}"
    );
    let settings = load(&text, &[]).unwrap();
    let chains: Vec<&str> = settings.routes.iter().map(|route| route.chain.as_str()).collect();
    assert_eq!(chains, ["bulk", "default"]);
    let shared = Chain::new(vec![Position::new([("relay", 3), ("east", 1)]), Position::new([("west", 1)])]);
    assert_eq!(settings.chains["bulk"], shared);
    assert_eq!(settings.providers["east"].when_busy, WhenBusy::Next);
    let summary = settings.summary();
    assert!(summary.contains("bulk = [{ east = 1, relay = 3 }, \"west\"]\n"), "{summary}");
    assert!(
        summary.ends_with(
            "[[routes]]\nchain = \"default\"\nclients = []\nsender_domains = []\n\
        recipient_domains = []\ntags = []\ndocument_types = []\npriorities = []\n"
        ),
        "{summary}"
    );
    let again = load(&summary.replace("url = \"********\"", "url = \"postgres://localhost/postrider\""), &[]).unwrap();
    assert_eq!(again.summary(), summary);

    let environment = [("POSTRIDER_CHAINS__BULK", "east|relay=3,west")];
    assert_eq!(load(&text, &environment).unwrap().chains["bulk"], shared);
}

#[test]
fn credentials_may_go_in_clear_text_to_this_machine() {
    for host in ["127.0.0.1", "localhost", "::1", "[::1]"] {
        let text = format!(
            "[providers.spare]\nkind = \"smtp\"\nhost = {host:?}\ntls = \"none\"\nusername = \"u\"\npassword = \"p\"\n{WHOLE}"
        );
        load(&text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    }
}

#[test]
fn the_summary_can_be_read_back() {
    let place = Place::new();
    let settings = place.load(&format!("[retry]\nmax_rounds = 5\ngrowth = \"exponential\"\n{WHOLE}"), &[]).unwrap();
    let summary = settings.summary();
    let again = place
        .load(&summary.replace("url = \"********\"", "url = \"postgres://localhost/postrider\""), &[])
        .unwrap_or_else(|errors| panic!("{errors}\n{summary}"));
    assert_eq!(again.summary(), summary);
    assert!(summary.contains("max_rounds = 5\npause = \"1m\"\ngrowth = \"exponential\"\n"), "{summary}");
}

#[test]
fn the_retry_policy_is_as_the_settings_have_it() {
    let settings = load(&format!("[retry]\ngrowth = \"exponential\"\nceiling = \"2h\"\n{WHOLE}"), &[]).unwrap();
    assert_eq!(
        RetryPolicy::from(&settings.retry),
        RetryPolicy {
            max_rounds: 10,
            pause: Duration::from_secs(60),
            growth: Growth::Exponential,
            ceiling: Duration::from_secs(7200),
            jitter: 0.1,
        }
    );
}
