//! The commands of the program `postrider`, run as a person or a script runs them: what they print, how they exit.

mod called_off;
mod operator;
mod providers;
mod send;
mod settings;
mod status;

use postrider::sandbox::http::{HttpOptions, HttpSink};

use crate::support::program::Program;

/// A gateway, and a service that has it as the only provider, is quick to try again and never takes it out.
async fn service() -> (HttpSink, Program) {
    let gateway = HttpSink::start(HttpOptions::default()).await.expect("the gateway starts");
    let settings = format!(
        "[retry]\npause = \"100ms\"\njitter = 0\nmax_rounds = 1000\n\
         [providers.gateway]\nkind = \"http\"\nurl = {:?}\nbreaker.min_calls = 10000\n\
         breaker.consecutive_failures = 10000\n[chains]\ndefault = [\"gateway\"]\n",
        gateway.url()
    );
    (gateway, Program::serve(&settings).await)
}

/// The least that is an email.
const EMAIL: [&str; 7] = ["send", "--from", "billing@shop.example", "--to", "anna@example.com", "--text", "Hello"];
