//! Who is put to the tests that every adapter passes.

use postrider::config;

use super::{Way, brevo, gateway, mailgun, postmark, resend, sendgrid, ses};

/// A kind of provider, with the answers that its double gives where each provider has its own words.
pub struct Subject {
    /// Its word in the settings.
    pub kind: &'static str,
    /// The settings of an account.
    pub settings: fn(&Way) -> config::Provider,
    /// The answer by which it accepts, with the id `id-1`.
    pub accept: fn() -> String,
    /// The status of that answer.
    pub accept_status: u16,
    /// The answer by which it refuses a message for good.
    pub refuse: fn() -> String,
    /// The answer by which it refuses our key.
    pub bad_credentials: fn() -> String,
    /// What it answers when it is asked too often, without headers of its own.
    pub throttle_body: &'static str,
}

/// Every adapter of an HTTP API. A new one is a line here.
pub const SUBJECTS: &[&Subject] = &[
    &gateway::SUBJECT,
    &sendgrid::SUBJECT,
    &mailgun::SUBJECT,
    &postmark::SUBJECT,
    &resend::SUBJECT,
    &ses::SUBJECT,
    &brevo::SUBJECT,
];
