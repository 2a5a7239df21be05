//! Against Debian's postfix: TLS and authentication, what it refuses, and what it delivers.

use postrider::{
    config::{SmtpProvider as Settings, SmtpTls},
    delivery::{Class, Health},
    provider::Provider,
};

use super::{classes, message_from_to, provider, settings, verdict};
use crate::support::{
    postfix::Postfix,
    postfix_daemons::{GreylistingPolicy, SaslServer},
};

/// Settings for it, over TLS.
fn secured(postfix: &Postfix) -> Settings {
    Settings {
        host: "localhost".to_owned(),
        tls: SmtpTls::Starttls,
        ca_file: Some(postfix.ca_file()),
        ..settings(([127, 0, 0, 1], postfix.port).into())
    }
}

#[tokio::test]
async fn messages_are_delivered_over_starttls_with_commands_in_groups() {
    let Some(postfix) = Postfix::start("") else { return };
    let relay = provider(&secured(&postfix));
    for _ in 0..3 {
        let outcome = relay.send(message_from_to("from@sender.example", &["a@example.com", "b@example.com"])).await;
        assert_eq!((classes(&outcome), outcome.health), (vec![Class::Accepted; 2], Health::Healthy));
        let id = outcome.provider_message_id.expect("an id");
        assert!(postfix.log().contains(&format!("{id}: message-id=<")), "{id}: {}", postfix.log());
    }
    assert_eq!(postfix.delivered(6).await.len(), 6);
    // Three messages, one connection.
    assert_eq!(postfix.log().matches(": connect from ").count(), 1, "{}", postfix.log());
}

#[tokio::test]
async fn its_sasl_knows_us_or_nothing_is_sent() {
    let sasl = SaslServer::start("user", "secret").await;
    let wanted = format!(
        "smtpd_sasl_auth_enable = yes\nsmtpd_sasl_type = dovecot\nsmtpd_sasl_path = inet:127.0.0.1:{}\n\
         mynetworks = 192.0.2.0/24\nsmtpd_relay_restrictions = permit_sasl_authenticated, reject\n",
        sasl.port
    );
    let Some(postfix) = Postfix::start(&wanted) else { return };
    let message = || message_from_to("from@sender.example", &["a@example.com"]);
    let known = Settings { username: Some("user".to_owned()), ..secured(&postfix) };
    assert_eq!(verdict(&provider(&known).send(message()).await).0, Class::Accepted);

    let stranger = Settings { username: Some("stranger".to_owned()), ..known.clone() };
    let outcome = provider(&stranger).send(message()).await;
    assert_eq!(verdict(&outcome), (Class::Misconfigured, "535 5.7.8".to_owned()));
    assert_eq!(outcome.health, Health::Misconfigured);

    let anonymous = Settings { username: None, ..known };
    assert_ne!(verdict(&provider(&anonymous).send(message()).await).0, Class::Accepted);
    assert_eq!(postfix.delivered(1).await.len(), 1);
}

#[tokio::test]
async fn relay_denied_is_about_our_account_with_either_of_its_codes() {
    // Its default defers, so that a mistake in its settings costs no mail; "reject" is what most set.
    for (restrictions, code) in
        [("", "454 4.7.1"), ("smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination\n", "554 5.7.1")]
    {
        let Some(postfix) = Postfix::start(&format!("mynetworks = 192.0.2.0/24\n{restrictions}")) else { return };
        let recipients = ["a@example.com", "a@elsewhere.example"];
        let outcome = provider(&secured(&postfix)).send(message_from_to("from@sender.example", &recipients)).await;
        assert_eq!(classes(&outcome), [Class::Accepted, Class::Misconfigured], "{}", postfix.log());

        let outcome = provider(&secured(&postfix)).send(message_from_to("from@sender.example", &recipients[1..])).await;
        assert_eq!(verdict(&outcome), (Class::Misconfigured, code.to_owned()));
        assert_eq!(outcome.health, Health::Misconfigured);
    }
}

#[tokio::test]
async fn a_message_beyond_its_size_is_unfit_there_announced_or_not() {
    let small = "message_size_limit = 10000\n";
    let large = "x".repeat(70).repeat(300);
    let recipients = ["a@example.com"];
    let large = || super::with_text(message_from_to("from@sender.example", &recipients), &large);

    let Some(postfix) = Postfix::start(small) else { return };
    let outcome = provider(&secured(&postfix)).send(large()).await;
    assert_eq!((verdict(&outcome), outcome.health), ((Class::UnfitHere, "size".to_owned()), Health::Healthy));

    let Some(postfix) = Postfix::start(&format!("{small}smtpd_discard_ehlo_keywords = size\n")) else { return };
    let relay = provider(&secured(&postfix));
    let outcome = relay.send(large()).await;
    assert_eq!((verdict(&outcome), outcome.health), ((Class::UnfitHere, "552 5.3.4".to_owned()), Health::Healthy));
    assert_eq!(verdict(&relay.send(message_from_to("from@sender.example", &recipients)).await).0, Class::Accepted);
    assert_eq!(postfix.delivered(1).await.len(), 1);
}

#[tokio::test]
async fn a_greylisted_recipient_is_deferred_alone_and_taken_the_next_time() {
    let policy = GreylistingPolicy::start("grey@example.com").await;
    let restrictions = format!("smtpd_recipient_restrictions = check_policy_service inet:127.0.0.1:{}\n", policy.port);
    let Some(postfix) = Postfix::start(&restrictions) else { return };
    let relay = provider(&secured(&postfix));
    let mut submission = message_from_to("from@sender.example", &["a@example.com", "grey@example.com"]);
    let outcome = relay.send(submission.clone()).await;
    assert_eq!(classes(&outcome), [Class::Accepted, Class::Deferred], "{}", postfix.log());
    assert_eq!(outcome.health, Health::Healthy);

    submission.recipients.remove(0);
    assert_eq!(relay.send(submission).await.verdicts[0].1.class, Class::Accepted);
    assert_eq!(postfix.delivered(2).await.len(), 2);
}

#[tokio::test]
async fn more_recipients_than_it_takes_at_once_go_in_several_envelopes() {
    let Some(postfix) = Postfix::start("smtpd_recipient_limit = 10\nsmtpd_recipient_overshoot_limit = 1000\n") else {
        return;
    };
    let recipients: Vec<String> = (0..25).map(|n| format!("to{n}@example.com")).collect();
    let recipients: Vec<&str> = recipients.iter().map(String::as_str).collect();
    let outcome = provider(&secured(&postfix)).send(message_from_to("from@sender.example", &recipients)).await;
    assert_eq!(classes(&outcome), [Class::Accepted; 25], "{}", postfix.log());
    assert_eq!(postfix.delivered(25).await.len(), 25);
}

#[tokio::test]
async fn it_relays_for_our_certificate_and_for_no_other() {
    let ours = super::encryption::ClientCertificate::new();
    let Some(postfix) = Postfix::start(&format!(
        "smtpd_tls_ask_ccert = yes\nsmtpd_tls_CAfile = {}\nmynetworks = 192.0.2.0/24\n\
         smtpd_relay_restrictions = permit_tls_all_clientcerts, reject_unauth_destination\n\
         default_transport = virtual\n",
        ours.authority_file().display()
    )) else {
        return;
    };
    let message = || message_from_to("from@sender.example", &["a@elsewhere.example"]);
    let known = Settings {
        certificate_file: Some(ours.certificate_file()),
        key_file: Some(ours.key_file()),
        ..secured(&postfix)
    };
    assert_eq!(verdict(&provider(&known).send(message()).await).0, Class::Accepted, "{}", postfix.log());
    let outcome = provider(&secured(&postfix)).send(message()).await;
    assert_eq!(verdict(&outcome), (Class::Misconfigured, "554 5.7.1".to_owned()));
    assert_eq!(postfix.delivered(1).await.len(), 1);
}
