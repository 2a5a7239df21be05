//! What a user is told who got the settings wrong.

use postrider::config;

use super::{Place, WHOLE, load};

/// The lines about a file that is whole but for what is added at its beginning.
fn wrong(text: &str, environment: &[(&str, &str)]) -> Vec<String> {
    load(&format!("{text}{WHOLE}"), environment).unwrap_err().lines().to_vec()
}

#[test]
fn one_message_lists_everything_that_is_wrong() {
    let errors = load(
        r#"
[server]
listen = "0.0.0.0:50051"
max_request_byte = 1
[database]
url = "mysql://root:DbPassword@localhost/x"
schema = "Mail"
max_connections = 1
[dispatch]
lease = "10s"
lease_renewal = "5s"
poll_shortest = "6s"
concurrency = "many"
claim_size = 0
settle_delay = 2
attempt_timeout = "10m"
[retry]
jitter = 1.5
growth = "quadratic"
pause = "2h"
[policy]
document_types = ["INVOICE", "order"]
attachment_types = ["pdf"]
[telemetry]
log_level = "loud,,=x"
[rety]
to = "x"
[providers.gateway]
kind = "http"
url = "ftp://user:GatewayPassword@host/x"
timeout = "soon"
[providers.gateway.breaker]
failure_ratio = 50
open_for = "10m"
[providers.relay]
kind = "smtp"
hots = "smtp.example.com"
tls = "maybe"
[providers.pigeon]
kind = "pigeon"
[chains]
default = ["gatway", "relay", "relay"]
spare = []
"#,
        &[("POSTRIDER_RETRY__MAX_ROUNDS", "0"), ("POSTRIDER_RETRY_PAUSE", "1s")],
    )
    .unwrap_err();
    let expected = [
        r#"server.max_request_byte: unknown setting, did you mean server.max_request_bytes? (line 4)"#,
        r#"database.max_connections = 1: expected a whole number from 2 to 1000 (line 8)"#,
        r#"dispatch.concurrency = "many": expected a whole number from 1 to 10000 (line 13)"#,
        r#"dispatch.claim_size = 0: expected a whole number from 1 to 1000 (line 14)"#,
        r#"dispatch.settle_delay = 2: expected a time with its unit, such as "500ms", "30s" or "1h 30m", from 0s to 1s (line 15)"#,
        r#"retry.max_rounds = "0": expected a whole number from 1 to 1000 (POSTRIDER_RETRY__MAX_ROUNDS)"#,
        r#"retry.growth = "quadratic": expected "linear" or "exponential" (line 19)"#,
        r#"retry.jitter = 1.5: expected a number from 0 to 1 (line 18)"#,
        r#"providers.gateway.timeout = "soon": expected a time with its unit, such as "500ms", "30s" or "1h 30m", from 10ms to 1h (line 31)"#,
        r#"providers.gateway.breaker.failure_ratio = 50: expected a number from 0.01 to 1 (line 33)"#,
        r#"providers.pigeon.kind = "pigeon": expected "http", "smtp", "sendgrid", "mailgun", "postmark", "resend", "ses" or "brevo" (line 40)"#,
        r#"providers.relay.host: missing, expected a text"#,
        r#"providers.relay.tls = "maybe": expected "starttls", "implicit" or "none" (line 38)"#,
        r#"providers.relay.hots: unknown setting, did you mean providers.relay.host? (line 37)"#,
        r#"rety: unknown setting, did you mean retry? (line 26)"#,
        r#"POSTRIDER_RETRY_PAUSE: unknown setting, did you mean POSTRIDER_RETRY__PAUSE?"#,
        r#"server.listen = "0.0.0.0:50051": expected a loopback address, since calls are not authenticated (line 3)"#,
        r#"database.url: expected postgres://user:password@host:port/database (the value is not shown, it is a secret) (line 6)"#,
        r#"database.schema = "Mail": expected a name of small letters, digits and _, up to 63 of them, not beginning with a digit or with pg_ (line 7)"#,
        r#"dispatch.poll_shortest = "6s": expected dispatch.poll_longest ("5s") at most (line 12)"#,
        r#"dispatch.lease_renewal = "5s": expected less than half of dispatch.lease ("10s"), so that one renewal may fail (line 11)"#,
        r#"retry.pause = "2h": expected retry.ceiling ("1h") at most (line 20)"#,
        r#"policy.document_types = "order": expected up to 64 of A-Z, 0-9 and _ (line 22)"#,
        r#"policy.attachment_types = "pdf": expected a media type in small letters, such as "application/pdf" or "image/*" (line 23)"#,
        r#"telemetry.log_level = "loud,,=x": expected error, warn, info, debug or trace, or directives such as "info,postrider::chain=debug" (line 25)"#,
        r#"providers.gateway.breaker.open_for = "10m": expected providers.gateway.breaker.open_longest ("5m") at most (line 34)"#,
        r#"providers.gateway.url = "ftp://***@host/x": expected an http:// or https:// URL (line 30)"#,
        r#"dispatch.attempt_timeout = "10m": expected "15m 10s" at least, the sum of providers.relay.connect_timeout, providers.relay.command_timeout, providers.relay.data_timeout (line 16)"#,
        r#"chains.default = "gatway": there is no provider of that name, did you mean "gateway"? (line 42)"#,
        r#"chains.default = "relay": stands in it twice, expected once (line 42)"#,
        r#"chains.spare = []: expected at least one provider (line 43)"#,
    ];
    assert_eq!(errors.lines(), expected);
    let message = errors.to_string();
    assert!(message.starts_with("31 things are wrong in the settings ("), "{message}");
    assert!(!message.contains("Password"), "{message}");
}

#[test]
fn nothing_given_says_what_is_missing() {
    let empty = Place::new();
    let errors = config::load_in(empty.0.path(), None, [("HOME", "/root")]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "2 things are wrong in the settings (from the environment, there is no file):\n  \
         database.url: missing, expected postgres://user:password@host:port/database\n  \
         chains.default: missing, expected the names of providers, first the one that is asked first"
    );
}

#[test]
fn each_kind_of_mistake_has_its_line() {
    for (text, line) in [
        ("server = 5\n", r#"server: expected a table (line 1)"#),
        (
            "[server]\nlisten = \"localhost\"\n",
            r#"server.listen = "localhost": expected an IP address and a port, such as "127.0.0.1:50051" (line 2)"#,
        ),
        (
            "[server]\nmax_request_bytes = 100000\n",
            r#"server.max_request_bytes = 100000: expected policy.max_message_bytes (26214400) at least (line 2)"#,
        ),
        (
            "[server]\ncall_timeout = \"1 parsec\"\n",
            r#"server.call_timeout = "1 parsec": expected a time with its unit, such as "500ms", "30s" or "1h 30m", from 100ms to 10m (line 2)"#,
        ),
        (
            "[server]\ncall_timeout = 1979-05-27\n",
            r#"server.call_timeout = a date: expected a time with its unit, such as "500ms", "30s" or "1h 30m", from 100ms to 10m (line 2)"#,
        ),
        (
            "[server.listen]\nport = 1\n",
            r#"server.listen = a table: expected an IP address and a port, such as "127.0.0.1:50051" (line 1)"#,
        ),
        ("[retry]\nmax_rounds = -1\n", r#"retry.max_rounds = -1: expected a whole number from 1 to 1000 (line 2)"#),
        (
            "[retry]\nmax_rounds = 99999999999999999999\n",
            r#"retry.max_rounds = 99999999999999999999: expected a whole number from 1 to 1000 (line 2)"#,
        ),
        ("[retry]\njitter = nan\n", r#"retry.jitter = NaN: expected a number from 0 to 1 (line 2)"#),
        (
            "[policy]\ndocument_types = \"INVOICE\"\n",
            r#"policy.document_types = "INVOICE": expected a list of texts, such as ["a", "b"] (line 2)"#,
        ),
        ("[providers]\nspare = 1\n", r#"providers.spare: expected a table (line 2)"#),
        (
            "[providers.spare]\nurl = \"http://localhost\"\n",
            r#"providers.spare.kind: missing, expected "http", "smtp", "sendgrid", "mailgun", "postmark", "resend", "ses" or "brevo""#,
        ),
        (
            "[providers.spare__x]\nkind = \"smtp\"\nhost = \"h\"\n",
            r#"providers.spare__x: expected a name of up to 40 letters and digits, with single - or _ between them (line 1)"#,
        ),
        (
            "[providers.Relay]\nkind = \"smtp\"\nhost = \"h\"\n",
            r#"providers.relay: differs from providers.Relay only by case, - or _: expected another name (line 7)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"smtp.example.com:25\"\n",
            r#"providers.spare.host = "smtp.example.com:25": expected a host name or an IP address, without a port (line 3)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nhello_name = \"my host\"\n",
            r#"providers.spare.hello_name = "my host": expected a host name or an address in square brackets (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nusername = \"u\"\n",
            r#"providers.spare.password: missing, since providers.spare.username is given"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\npassword = \"p\"\n",
            r#"providers.spare.username: missing, since a password is given"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nauth = \"login\"\n",
            r#"providers.spare.auth = "login": expected a username besides it (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nport = 0\n",
            r#"providers.spare.port = 0: expected a whole number from 1 to 65535 (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nurl = \"x\"\n",
            r#"providers.spare.url: unknown setting (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\ntls = \"none\"\nusername = \"u\"\npassword = \"p\"\n",
            r#"providers.spare.tls = "none": expected "starttls" or "implicit": credentials are not sent to another machine in clear text (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nca_file = \"/nonexistent/ca.pem\"\n",
            r#"providers.spare.ca_file = "/nonexistent/ca.pem": the file cannot be read: No such file or directory (os error 2) (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nca_file = \"/dev/null\"\n",
            r#"providers.spare.ca_file = "/dev/null": expected a file with certificates in PEM (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nkey_file = \"/dev/null\"\n",
            r#"providers.spare.key_file = "/dev/null": expected a file with a private key in PEM (line 4)"#,
        ),
        (
            "[providers.spare.dkim.shop]\ndomain = \"shop.example\"\nselector = \"s1\"\nkey_file = \"/dev/null\"\n\
             [providers.spare]\nkind = \"smtp\"\nhost = \"h\"\n",
            r#"providers.spare.dkim.shop.key_file = "/dev/null": expected a file with a private key in PEM (line 4)"#,
        ),
        ("[providers.spare]\nkind = \"http\"\n", r#"providers.spare.url: missing, expected a text"#),
        (
            "[providers.spare]\nkind = \"sendgrid\"\n",
            "providers.spare.key: missing, expected the account's key, here or in key_file",
        ),
        (
            "[providers.spare]\nkind = \"sendgrid\"\nkey = \"k\"\nregion = \"mars\"\n",
            r#"providers.spare.region = "mars": expected "global" or "eu" (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"postmark\"\nkey = \"k k\"\n",
            "providers.spare.key: expected printable ASCII without spaces, as it goes into a header (line 3)",
        ),
        (
            "[providers.spare]\nkind = \"resend\"\nkey_file = \"/dev/null\"\n",
            r#"providers.spare.key_file = "/dev/null": the file is empty (line 3)"#,
        ),
        (
            "[providers.spare]\nkind = \"brevo\"\nkey = \"k\"\nurl = \"https://u:p@host/\"\n",
            r#"providers.spare.url = "https://***@host/": expected no user and no password in it, give a key instead (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"mailgun\"\nkey = \"k\"\ndomain = \"a/b\"\n",
            r#"providers.spare.domain = "a/b": expected a domain name (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"mailgun\"\nkey = \"k\"\nmessage_stream = \"x\"\n",
            r#"providers.spare.message_stream: unknown setting (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"ses\"\nkey = \"k\"\nregion = \"eu-central-1\"\n",
            r#"providers.spare.access_key_id: missing, expected a text"#,
        ),
        (
            "[providers.spare]\nkind = \"ses\"\nkey = \"k\"\naccess_key_id = \"A\"\nregion = \"eu.evil.example/\"\n",
            r#"providers.spare.region = "eu.evil.example/": expected the name of an AWS region, such as "eu-central-1" (line 5)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"http:///mail\"\n",
            r#"providers.spare.url = "http:///mail": expected an http:// or https:// URL (line 3)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"http://localhost/\"\ntoken = \"t\u{f6}ken\"\n",
            "providers.spare.token: expected printable ASCII without spaces, as it goes into a header (line 4)",
        ),
        (
            "[providers.spare]\nkind = \"smtp\"\nhost = \"\"\n",
            r#"providers.spare.host = "": expected a host name or an IP address, without a port (line 3)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"https://u:p@host/\"\n",
            r#"providers.spare.url = "https://***@host/": expected no user and no password in it, give a token instead (line 3)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"https://h\"\ntoken = 5\n",
            r#"providers.spare.token: expected a text that is not empty (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"https://h\"\ntoken_file = \"/nonexistent/token\"\n",
            r#"providers.spare.token_file = "/nonexistent/token": the file cannot be read: No such file or directory (os error 2) (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"https://h\"\ntoken_file = \"/dev/null\"\n",
            r#"providers.spare.token_file = "/dev/null": the file is empty (line 4)"#,
        ),
        (
            "[providers.spare]\nkind = \"http\"\nurl = \"https://h\"\ntoken = \"t\"\ntoken_file = \"/dev/null\"\n",
            r#"providers.spare.token: given besides providers.spare.token_file, expected only one of the two (line 4)"#,
        ),
    ] {
        assert_eq!(wrong(text, &[]), [line], "{text}");
    }
}

#[test]
fn each_mistake_in_chains_and_routes_has_its_line() {
    let route = |line: &str| format!("[[routes]]\n{line}\n");
    for (text, line) in [
        (
            "[[routes]]\nchain = \"bulk\"\n[[routes]]\ntags = [\"a\"]\n".to_owned(),
            vec![
                r#"routes[1].chain: missing, expected a text"#,
                r#"routes[0].chain = "bulk": there is no chain of that name (line 2)"#,
            ],
        ),
        (
            route("chain = \"defualt\""),
            vec![r#"routes[0].chain = "defualt": there is no chain of that name, did you mean "default"? (line 2)"#],
        ),
        (
            route("chain = \"default\"\ntag = [\"a\"]"),
            vec!["routes[0].tag: unknown setting, did you mean routes[0].tags? (line 3)"],
        ),
        (
            route("chain = \"default\"\nclients = \"shop\""),
            vec![r#"routes[0].clients = "shop": expected a list of texts, such as ["a", "b"] (line 3)"#],
        ),
        (
            route("chain = \"default\"\nsender_domains = [\"shop example\"]"),
            vec![
                r#"routes[0].sender_domains = "shop example": expected a domain such as "example.com", or "*.example.com" for all below it; in ASCII (xn--…) (line 3)"#,
            ],
        ),
        (
            route("chain = \"default\"\npriorities = [\"high\"]"),
            vec![r#"routes[0].priorities = "high": expected "HIGH", "NORMAL" or "BULK" (line 3)"#],
        ),
        (
            "[routes]\nchain = \"default\"\n".to_owned(),
            vec!["routes: expected tables, each under [[routes]] in the file (line 1)"],
        ),
        ("routes = [\"default\"]\n".to_owned(), vec![r#"routes = "default": expected a table (line 1)"#]),
    ] {
        assert_eq!(wrong(&text, &[]), line, "{text}");
    }

    let chain = |line: &str| load(&format!("{WHOLE}{line}\n"), &[]).unwrap_err().lines().to_vec();
    let expected = "expected a list of providers, such as [\"a\", \"b\"], where { a = 3, b = 1 } stands for those that share \
                    a place by weights from 1 to 1000000 (line 9)";
    assert_eq!(chain("bulk = [{ relay = 0 }]"), [format!("chains.bulk = [a table]: {expected}")]);
    assert_eq!(chain("bulk = [{}]"), [format!("chains.bulk = [a table]: {expected}")]);
    assert_eq!(chain("bulk = \"relay\""), [format!("chains.bulk = \"relay\": {expected}")]);
    let twice = r#"chains.bulk = "relay": stands in it twice, expected once (line 9)"#;
    assert_eq!(chain("bulk = [\"relay\", { relay = 2 }]"), [twice]);
    let name =
        "chains.bulk__x: expected a name of up to 40 letters and digits, with single - or _ between them (line 9)";
    assert_eq!(chain("bulk__x = [\"relay\"]"), [name]);
}

#[test]
fn a_chain_without_providers_is_refused() {
    let errors = load(&WHOLE.replace("[\"relay\"]", "[]"), &[]).unwrap_err();
    assert_eq!(errors.lines(), ["chains.default = []: expected at least one provider (line 8)"]);
}

#[test]
fn a_figure_that_is_wrong_itself_is_not_compared_with_others() {
    let lines = wrong("[dispatch]\nlease = \"never\"\nlease_renewal = \"40s\"\n", &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("dispatch.lease = \"never\":"), "{lines:?}");
}

#[test]
fn a_file_that_is_not_toml_is_said_to_be_so_without_its_text() {
    let place = Place::new();
    let text = "[database]\nurl = postgres://u:DbPassword@h/d\n[retry]\nmax_rounds = = 5\n";
    let errors = place.load(text, &[]).unwrap_err();
    let message = errors.to_string();
    assert!(message.contains("not valid TOML") && message.contains("(line 2)"), "{message}");
    assert!(message.contains("(line 4)"), "{message}");
    assert!(!message.contains("DbPassword") && !format!("{errors:?}").contains("DbPassword"), "{message}");
}

#[test]
fn a_file_that_was_asked_for_must_be_there() {
    let errors = config::load(Some("/nonexistent/postrider.toml".as_ref()), [("A", "b")]).unwrap_err();
    assert_eq!(
        errors.to_string(),
        "1 thing is wrong in the settings (/nonexistent/postrider.toml and the environment):\n  \
         /nonexistent/postrider.toml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn a_key_without_its_certificate_and_a_signature_without_its_sender_are_mistakes() {
    let place = Place::new();
    let key = place.write("key.pem", &rcgen::KeyPair::generate().unwrap().serialize_pem());
    let text = format!(
        "{WHOLE}[providers.spare]\nkind = \"smtp\"\nhost = \"h\"\nkey_file = {key:?}\n\
         [providers.spare.dkim.shop]\ndomain = \"a b\"\nselector = \"a;b\"\nheaders = [\"Subject\"]\n"
    );
    let errors = place.load(&text, &[]).expect_err("it is no settings").to_string();
    for expected in [
        "providers.spare.certificate_file: missing, since providers.spare.key_file is given",
        r#"providers.spare.dkim.shop.domain = "a b": expected a domain"#,
        r#"providers.spare.dkim.shop.selector = "a;b": expected the part of the key's name in the DNS"#,
        "providers.spare.dkim.shop.key_file: missing, expected the path of a file",
        r#"providers.spare.dkim.shop.headers = ["Subject"]: expected names of header fields, From among them"#,
    ] {
        assert!(errors.contains(expected), "{expected}\nin {errors}");
    }
}
