//! `postrider check-config`, `serve` and `migrate`: what they say of settings and of a database that will not do.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::support::program::{DATABASE_PASSWORD, NOBODY, Place, run, terminate};

/// Everything here is wrong but the secrets.
const BROKEN: &str = "[retry]\nmax_rouns = 3\npause = \"soon\"\n\
                      [dispatch]\nconcurrency = 0\n\
                      [providers.relay]\nkind = \"smtp\"\nusername = \"user\"\npassword = \"Hemlig-relay\"\ntls = \"maybe\"\n\
                      [chains]\ndefault = [\"relay\", \"nowhere\"]\n";
const WRONG: [&str; 6] = [
    "retry.max_rouns",
    "retry.pause",
    "dispatch.concurrency",
    "providers.relay.host",
    "providers.relay.tls",
    "chains.default",
];

#[tokio::test]
async fn all_that_is_wrong_with_the_settings_is_said_at_once_by_serve_too() {
    let place = Place::new(BROKEN).await;
    let mut messages = Vec::new();
    for command in ["check-config", "serve", "migrate"] {
        let said = run(place.postrider([command])).await;
        assert_eq!((said.code, said.out.as_str()), (2, ""), "{command}: {said:?}");
        assert!(said.err.starts_with("postrider: 6 things are wrong in the settings"), "{command}: {}", said.err);
        for path in WRONG {
            assert!(said.err.contains(&format!("\n  {path}")), "{command}: {path} is not in {}", said.err);
        }
        assert!(!said.err.contains("Hemlig"), "{command}: {}", said.err);
        messages.push(said.err);
    }
    assert!(messages.iter().all(|message| *message == messages[0]), "each says the same");
}

#[tokio::test]
async fn the_settings_in_force_are_printed_without_secrets() {
    let settings = format!(
        "{NOBODY}[providers.relay]\nkind = \"smtp\"\nhost = \"mail.example\"\nusername = \"user\"\n\
         password_file = \"password\"\n[retry]\nmax_rounds = 3\n"
    );
    let place = Place::new(&settings).await;
    place.write("password", "Hemlig-relay\n");
    let mut command = place.postrider(["check-config"]);
    command.env("POSTRIDER_RETRY__PAUSE", "7s").env("POSTRIDER_PROVIDERS__NOBODY__TOKEN", "Hemlig-token");
    let said = run(command).await;
    for line in ["max_rounds = 3", "pause = \"7s\"", "host = \"mail.example\"", "default = [\"nobody\"]"] {
        assert!(said.well().contains(line), "{line} is not in {}", said.out);
    }
    for secret in ["Hemlig-relay", "Hemlig-token", DATABASE_PASSWORD] {
        assert!(!said.out.contains(secret) && !said.err.contains(secret), "{secret}: {said:?}");
    }
    assert_eq!(said.err, "postrider: providers.relay: stands in no chain, so it is never asked\n");
}

#[tokio::test]
async fn roles_of_the_command_line_go_before_the_settings() {
    // Without a provider nothing can be sent.
    let place = Place::new("[process]\nroles = [\"api\", \"maintain\"]\n").await;
    run(place.postrider(["check-config"])).await.well();
    let said = run(place.postrider(["serve", "--roles", "api,dispatch"])).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("chains.default"), "{}", said.err);
    let said = run(place.postrider(["serve", "--roles", "api,mail"])).await;
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("one or more of \"api\", \"dispatch\" or \"maintain\""), "{}", said.err);

    let mut command = place.postrider(["serve", "--roles", "maintain"]);
    let mut process = command.env("POSTRIDER_PROCESS__ROLES", "api").spawn().expect("the program starts");
    let mut lines = BufReader::new(process.stderr.take().expect("its log")).lines();
    let serving = loop {
        let line = lines.next_line().await.expect("its log").expect("it serves");
        if line.contains("\"serving\"") {
            break line;
        }
    };
    assert!(serving.contains("\"roles\":\"maintain\""), "{serving}");
    assert!(terminate(&mut process).await.success());
}

#[tokio::test]
async fn a_settings_file_that_is_not_there_or_not_toml_is_said() {
    let place = Place::new(NOBODY).await;
    place.write("broken.toml", "[server\n");
    for (file, expected) in [("missing.toml", "missing.toml"), ("broken.toml", "broken.toml")] {
        let said = run(place.postrider(["check-config", "--config", file])).await;
        assert_eq!(said.code, 2, "{said:?}");
        assert!(said.err.contains(expected), "{said:?}");
    }
}

#[tokio::test]
async fn a_database_without_tables_is_refused_until_it_is_migrated_once_or_twice() {
    let place = Place::new(NOBODY).await;
    place.database.execute("drop schema postrider cascade").await;
    let refused = run(place.postrider(["serve"])).await;
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
    assert!(refused.err.contains("run `postrider migrate` first"), "{refused:?}");
    for _ in 0..2 {
        let said = run(place.postrider(["migrate"])).await;
        assert_eq!(said.well(), "");
        assert!(!said.err.contains(DATABASE_PASSWORD));
    }
    let program = place.serve().await;
    program.run(super::EMAIL).await.well();
    program.stop().await;
}

#[tokio::test]
async fn a_database_that_is_not_there_is_waited_for_a_while_and_the_reason_told() {
    let place = Place::new(NOBODY).await;
    let mut command = place.postrider(["migrate"]);
    command.env("POSTRIDER_DATABASE__URL", format!("postgres://u:{DATABASE_PASSWORD}@127.0.0.1:1/postrider"));
    let said = run(command).await;
    assert_eq!((said.code, said.out.as_str()), (3, ""), "{said:?}");
    assert!(said.err.matches("the database is not available yet").count() > 3, "{said:?}");
    assert!(said.err.ends_with("Connection refused (os error 111)\n"), "{said:?}");
    assert!(!said.err.contains(DATABASE_PASSWORD), "{said:?}");
}

#[tokio::test]
async fn who_waits_for_a_database_can_be_stopped() {
    let place = Place::new(NOBODY).await;
    let mut command = place.postrider(["serve"]);
    command.env("POSTRIDER_DATABASE__URL", "postgres://u@127.0.0.1:1/postrider");
    let mut process = command.spawn().expect("the program starts");
    let mut log = BufReader::new(process.stderr.take().expect("its log"));
    let (mut waits, mut rest) = (String::new(), String::new());
    log.read_line(&mut waits).await.expect("a line");
    assert!(waits.contains("the database is not available yet"), "{waits}");
    assert!(terminate(&mut process).await.success());
    log.read_to_string(&mut rest).await.expect("the rest");
    assert!(!rest.contains("postrider: "), "it did not wait to the end: {rest}");
}

#[tokio::test]
async fn an_address_that_is_taken_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let place = Place::new(NOBODY).await;
    let mut command = place.postrider(["serve"]);
    command.env("POSTRIDER_SERVER__LISTEN", &address);
    let said = run(command).await;
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&format!("cannot listen on {address}")), "{said:?}");
}

#[tokio::test]
async fn the_help_tells_the_exit_codes() {
    let place = Place::new(NOBODY).await;
    let said = run(place.postrider(["--help"])).await;
    for code in ["0", "1", "2", "3", "4", "5", "10", "11", "12"] {
        assert!(said.well().contains(&format!("\n  {code:<2} ")), "{code} is not in {}", said.out);
    }
}
