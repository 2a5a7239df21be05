use std::path::Path;

use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;

const CONTENT: &[u8] =
    b"From: from@shop.example\r\nTo: to@there.example\r\nX-Other: a\r\nReceived: one\r\n\r\nHello\r\n";

fn settings(folder: &Path, domain: &str) -> config::Dkim {
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key");
    let key_file = folder.join(format!("{domain}.pem"));
    std::fs::write(&key_file, key.serialize_pem()).expect("the key is written");
    config::Dkim { key_file, ..config::Dkim::new(domain, "s1") }
}

fn keys(domains: &[&str]) -> Keys {
    let folder = tempfile::tempdir().expect("a folder");
    let settings = domains.iter().map(|domain| ((*domain).to_owned(), settings(folder.path(), domain))).collect();
    Keys::read(&settings).expect("the keys can sign")
}

fn sign(keys: &Keys, sender: &str) -> String {
    let sender = EmailAddress::parse(sender).expect("an address");
    keys.sign(&sender, OffsetDateTime::UNIX_EPOCH, CONTENT).expect("signatures")
}

#[test]
fn a_key_signs_for_its_domain_and_those_below_it() {
    let keys = keys(&["shop.example", "example", "other.example"]);
    let table = [
        ("a@shop.example", vec!["example", "shop.example"]),
        ("a@mail.shop.example", vec!["example", "shop.example"]),
        ("a@workshop.example", vec!["example"]),
        ("a@shop.example.org", vec![]),
    ];
    for (sender, expected) in table {
        let signatures = sign(&keys, sender);
        let domains: Vec<&str> = signatures.split(" d=").skip(1).filter_map(|rest| rest.split(';').next()).collect();
        assert_eq!(domains, expected, "{sender}");
    }
}

#[test]
fn what_a_reader_sees_is_sealed_and_what_relays_add_is_left_out() {
    let signature = sign(&keys(&["shop.example"]), "a@shop.example");
    let names = signature.split("h=").nth(1).and_then(|rest| rest.split(';').next()).expect("names");
    let names: Vec<&str> = names.split(':').map(str::trim).collect();
    for (name, times) in [("from", 2), ("to", 2), ("cc", 1), ("subject", 1), ("x-other", 0), ("received", 0)] {
        assert_eq!(names.iter().filter(|listed| **listed == name).count(), times, "{name} in {names:?}");
    }
    assert!(!names.contains(&"content-type"));
}

#[test]
fn the_same_message_gets_the_same_signature_and_no_line_is_long() {
    let keys = keys(&["shop.example"]);
    let signature = sign(&keys, "a@shop.example");
    assert_eq!(signature, sign(&keys, "a@shop.example"));
    assert!(signature.ends_with("\r\n") && signature.lines().all(|line| line.len() <= 100), "{signature}");
    assert!(signature.starts_with("DKIM-Signature: v=1; a=ed25519-sha256; c=relaxed/relaxed;"), "{signature}");
}

#[test]
fn a_key_that_cannot_sign_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let ecdsa = rcgen::KeyPair::generate().expect("a key");
    let table = [
        ("ecdsa.pem", ecdsa.serialize_pem()),
        ("certificate.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()),
        ("empty.pem", String::new()),
    ];
    for (name, content) in table {
        let key_file = folder.path().join(name);
        std::fs::write(&key_file, content).expect("the file is written");
        let settings = config::Dkim { key_file, ..config::Dkim::new("shop.example", "s1") };
        let error = Keys::read(&BTreeMap::from([("shop".to_owned(), settings)])).err().expect("an error").to_string();
        assert!(error.starts_with("dkim.shop.key_file: "), "{name}: {error}");
    }
}

/// The vector of RFC 8463, appendix A: the key is published there, so that nothing but the algorithm decides.
#[test]
fn ed25519_signs_the_hash() {
    let seed = BASE64_STANDARD.decode("nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=").expect("base64");
    let mut pkcs8 =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    pkcs8.extend(seed);
    let key = any_supported_type(&PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pkcs8))).expect("a key");
    let (algorithm, signer) = suitable(&*key).expect("DKIM knows it");
    assert_eq!(algorithm, Algorithm::Ed25519Sha256);
    let fields = "from:Joe SixPack <joe@football.example.com>\r\nto:Suzie Q <suzie@shopping.example.net>\r\n\
                  subject:Is dinner ready?\r\ndate:Fri, 11 Jul 2003 21:00:37 -0700 (PDT)\r\n\
                  message-id:<20030712040037.46341.5F8J@football.example.com>\r\n";
    let own = "dkim-signature:v=1; a=ed25519-sha256; c=relaxed/relaxed; d=football.example.com; \
                 i=@football.example.com; q=dns/txt; s=brisbane; t=1528637909; h=from : to : subject : date : \
                 message-id : from : subject : date; bh=2jUSOH9NhtVGCQWNr9BrIAPreKQjO6Sn7XIkfJVOzv8=; b=";
    let signature = signer.sign(&Sha256::digest(format!("{fields}{own}"))).expect("a signature");
    let expected = "/gCrinpcQOoIfuHNQIbq4pgh9kyIK3AQUdt9OdqQehSwhEIug4D11BusFa3bT3FY5OsU7ZbnKELq+eXdp1Q1Dw==";
    assert_eq!(BASE64_STANDARD.encode(signature), expected);
}
