//! `postrider providers`.

use serde_json::{Value, json};

use super::{EMAIL, service};

#[tokio::test]
async fn providers_are_shown_and_turned_off_and_on() {
    let (gateway, program) = service().await;
    let shown = program.run(["providers"]).await;
    let lines: Vec<Vec<&str>> = shown.well().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0][..4], ["NAME", "KIND", "MODE", "CIRCUIT"]);
    assert_eq!(lines[1..], [["gateway", "http", "on", "closed", "-"]]);

    let set = program.run(["providers", "set", "gateway", "off"]).await;
    assert!(set.well().contains("provider gateway is turned off by an operator"), "{set:?}");
    let shown = program.run(["providers", "--json"]).await;
    let told: Value = serde_json::from_str(shown.well()).expect("JSON");
    let expected = json!([{
        "name": "gateway", "kind": "http", "mode": "off", "circuit": "closed", "resting_until": null,
        "reason": "provider gateway is turned off by an operator",
    }]);
    assert_eq!(told, expected);

    let sent = program.run([&EMAIL[..], &["--wait", "0"]].concat()).await;
    assert_eq!(sent.code, 10, "it waits: {sent:?}");
    assert_eq!(gateway.inbox().count(), 0);
    let set = program.run(["providers", "set", "gateway", "on", "--json"]).await;
    assert_eq!(serde_json::from_str::<Value>(set.well()).expect("JSON")[0]["mode"], "on");
    gateway
        .inbox()
        .wait_until(|inbox| inbox.count() == 1, std::time::Duration::from_secs(10))
        .await
        .expect("what waited is sent");
    program.stop().await;
}

#[tokio::test]
async fn what_is_no_provider_or_no_mode_is_refused() {
    let (_gateway, program) = service().await;
    let unknown = program.run(["providers", "set", "gatewya", "off"]).await;
    assert_eq!(unknown.code, 5, "{unknown:?}");
    assert!(unknown.err.contains("no process sends"), "{unknown:?}");
    assert_eq!(program.run(["providers", "set", "gateway", "away"]).await.code, 2);
    program.stop().await;
}
