//! Whom the adapter believes to be the gateway.

use super::*;
use crate::support::certificates::certificates;

async fn outcome_with(certified: &str, trusted: bool) -> Outcome {
    let (authority, config) = certificates(certified);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority).unwrap();
    let peer = HttpPeer::start_tls(&[Behaviour::Answer(response(200, "", ""))], config).await;
    let ca_file = trusted.then(|| file.path().to_owned());
    provider_with(&peer.url(), |s| s.ca_file = ca_file).send(submission(message(), &[0])).await
}

#[tokio::test]
async fn a_gateway_with_a_certificate_of_the_settings_is_trusted() {
    let outcome = outcome_with("localhost", true).await;
    assert_outcome(&outcome, Class::Accepted, Scope::Recipient, "200", Health::Healthy);
}

#[tokio::test]
async fn a_wrong_name_or_an_unknown_authority_is_a_misconfiguration() {
    for (certified, trusted) in [("other.example", true), ("localhost", false)] {
        let outcome = outcome_with(certified, trusted).await;
        assert_outcome(&outcome, Class::Misconfigured, Scope::Provider, "certificate", Health::Misconfigured);
    }
}

#[tokio::test]
async fn a_peer_that_does_not_finish_the_handshake_was_sent_nothing() {
    for (behaviour, code) in [(Behaviour::Deaf, "connect_timeout"), (Behaviour::ResetAfter(1), "connect")] {
        let peer = HttpPeer::start(&[behaviour]).await;
        let url = peer.url().replace("http:", "https:");
        let outcome = provider_with(&url, |s| s.connect_timeout = Duration::from_millis(300))
            .send(submission(bare(UnknownOutcome::Hold), &[0]))
            .await;
        assert_outcome(&outcome, Class::Unavailable, Scope::Provider, code, FAILING);
    }
}

#[test]
fn a_file_without_a_certificate_is_refused() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for path in [empty.path(), std::path::Path::new("/no/such/file")] {
        let settings = settings("https://localhost/", |s| s.ca_file = Some(path.to_owned()));
        let error = HttpProvider::new(ProviderName::new("gateway"), &settings, None).unwrap_err();
        assert!(error.to_string().starts_with("ca_file: "), "{error}");
    }
}
