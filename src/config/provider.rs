//! The providers' settings.
//!
//! Owns what every kind has, and which kinds there are; each kind's own settings have a file of their own.

use std::time::Duration;

use super::{
    ApiProvider, ApiService, Breaker, HttpProvider, SmtpProvider,
    section::{Rule, Section, Visitor},
    value::Choice,
};

/// One provider: an account at a sender of email.
#[derive(Clone, Debug)]
pub struct Provider {
    /// What kind it is, with that kind's own settings.
    pub kind: ProviderKind,
    /// How many messages are handed to it at once by all processes together, 32 by default; each has its part of them.
    /// More: faster, until the provider throttles.
    pub concurrency: usize,
    /// How many messages a second are handed to it by all processes together; without it, the default: no limit.
    pub rate_per_second: Option<u32>,
    /// How long it rests after it throttled us without naming a time, 10 s by default.
    pub throttle_rest: Duration,
    /// How long it rests after its quota was used up or its credentials were refused, without a time named; 5 min by
    /// default. Shorter: a repaired account is found sooner.
    pub account_rest: Duration,
    /// What becomes of a message while it is at one of these two limits: it waits for it, the default, or goes to the
    /// next provider of its chain. The last that could take it is waited for in any case, and so is one that may have
    /// the message already.
    pub when_busy: WhenBusy,
    /// Its circuit breaker.
    pub breaker: Breaker,
}

/// What becomes of a message while a provider is at a limit of ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub enum WhenBusy {
    /// It waits for that provider.
    #[default]
    Wait,
    /// It goes to the next provider of the chain.
    Next,
}

impl Choice for WhenBusy {
    const WORDS: &'static [(Self, &'static str)] = &[(WhenBusy::Wait, "wait"), (WhenBusy::Next, "next")];
}

/// What kind of sender a provider is. Matched only by the registry of providers, and here where its settings are read
/// and checked.
#[derive(Clone, Debug)]
pub enum ProviderKind {
    /// A mail gateway of the user's own, over HTTP.
    Http(HttpProvider),
    /// An SMTP relay.
    Smtp(SmtpProvider),
    /// A provider with an HTTP API of its own.
    Api(ApiProvider),
}

impl Provider {
    /// A provider of that kind, everything else at its default.
    pub fn new(kind: ProviderKind) -> Self {
        Self {
            kind,
            concurrency: 32,
            rate_per_second: None,
            throttle_rest: Duration::from_secs(10),
            account_rest: Duration::from_secs(300),
            when_busy: WhenBusy::default(),
            breaker: Breaker::default(),
        }
    }

    /// A provider of which nothing is known yet: what a table of the file is read into.
    pub(super) fn blank() -> Self {
        Self::new(ProviderKind::Http(HttpProvider::new("")))
    }

    /// Whether it is still what [`Self::blank`] makes, so that its kind is not known.
    fn is_blank(&self) -> bool {
        matches!(&self.kind, ProviderKind::Http(http) if http.url.is_empty())
    }
}

impl Section for Provider {
    fn visit(self, v: &mut impl Visitor) -> Self {
        let present = (!self.is_blank()).then(|| self.kind.word());
        let kind = match v.setting("kind", present, Rule::Required) {
            Some(word) => self.kind.become_kind(word).visit(v),
            None => {
                v.skip_rest();
                self.kind
            }
        };
        let s = Duration::from_secs;
        let day = s(24 * 60 * 60);
        Self {
            kind,
            concurrency: v.within("concurrency", self.concurrency, 1..=10_000),
            rate_per_second: v.optional_within("rate_per_second", self.rate_per_second, 1..=1_000_000),
            throttle_rest: v.within("throttle_rest", self.throttle_rest, Duration::from_millis(10)..=day),
            account_rest: v.within("account_rest", self.account_rest, Duration::from_millis(10)..=day),
            when_busy: v.any("when_busy", self.when_busy),
            breaker: v.section("breaker", self.breaker),
        }
    }
}

/// The word for a kind in the settings.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum KindWord {
    Http,
    Smtp,
    Sendgrid,
    Mailgun,
    Postmark,
    Resend,
    Ses,
    Brevo,
}

impl Choice for KindWord {
    const WORDS: &'static [(Self, &'static str)] = &[
        (KindWord::Http, "http"),
        (KindWord::Smtp, "smtp"),
        (KindWord::Sendgrid, "sendgrid"),
        (KindWord::Mailgun, "mailgun"),
        (KindWord::Postmark, "postmark"),
        (KindWord::Resend, "resend"),
        (KindWord::Ses, "ses"),
        (KindWord::Brevo, "brevo"),
    ];
}

impl ProviderKind {
    /// The word for it in the settings.
    pub fn as_str(&self) -> &'static str {
        let word = self.word();
        KindWord::WORDS.iter().find(|(kind, _)| *kind == word).map_or("", |(_, word)| word)
    }

    fn word(&self) -> KindWord {
        match self {
            ProviderKind::Http(_) => KindWord::Http,
            ProviderKind::Smtp(_) => KindWord::Smtp,
            ProviderKind::Api(api) => match api.service {
                ApiService::Sendgrid { .. } => KindWord::Sendgrid,
                ApiService::Mailgun { .. } => KindWord::Mailgun,
                ApiService::Postmark { .. } => KindWord::Postmark,
                ApiService::Resend => KindWord::Resend,
                ApiService::Ses { .. } => KindWord::Ses,
                ApiService::Brevo => KindWord::Brevo,
            },
        }
    }

    /// The same, or else an account of that kind of which nothing is known yet.
    fn become_kind(self, word: KindWord) -> Self {
        let api = |service| ProviderKind::Api(ApiProvider::new(service));
        match word {
            same if same == self.word() => self,
            KindWord::Http => ProviderKind::Http(HttpProvider::new("")),
            KindWord::Smtp => ProviderKind::Smtp(SmtpProvider::new("")),
            KindWord::Sendgrid => api(ApiService::sendgrid()),
            KindWord::Mailgun => api(ApiService::mailgun()),
            KindWord::Postmark => api(ApiService::postmark()),
            KindWord::Resend => api(ApiService::Resend),
            KindWord::Ses => api(ApiService::ses("", "")),
            KindWord::Brevo => api(ApiService::Brevo),
        }
    }

    fn visit(self, v: &mut impl Visitor) -> Self {
        match self {
            ProviderKind::Http(http) => ProviderKind::Http(http.visit(v)),
            ProviderKind::Smtp(smtp) => ProviderKind::Smtp(smtp.visit(v)),
            ProviderKind::Api(api) => ProviderKind::Api(api.visit(v)),
        }
    }
}
