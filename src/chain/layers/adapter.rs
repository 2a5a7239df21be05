//! The adapter as a service, held to its word: an outcome whatever happens, with one verdict for each recipient.
//!
//! Owns no wire and no classification: only what an adapter failed to say is said here.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::FutureExt;
use tower::Service;

use super::Answer;
use crate::{
    delivery::{Class, Health, Outcome, Scope, Verdict},
    message::RecipientIndex,
    provider::{Provider, Submission},
};

/// An adapter as a service.
#[derive(Clone)]
pub(super) struct Adapter {
    provider: Arc<dyn Provider>,
}

impl Adapter {
    pub(super) fn new(provider: Arc<dyn Provider>) -> Self {
        Self { provider }
    }
}

impl Service<Submission> for Adapter {
    type Response = Outcome;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, submission: Submission) -> Answer {
        let provider = self.provider.clone();
        Box::pin(async move {
            let recipients = submission.recipients.clone();
            // Nothing of ours crosses into the adapter but what it was handed, and that is gone after a panic.
            let sent = AssertUnwindSafe(async { provider.send(submission).await }).catch_unwind().await;
            Ok(match sent {
                Ok(outcome) => complete(outcome, &recipients),
                Err(_) => {
                    tracing::error!(provider = provider.name().as_str(), "the adapter panicked");
                    Outcome::uniform(&recipients, &nobody_knows("panic"), Health::Failing { retry_after: None })
                }
            })
        })
    }
}

/// One verdict for each recipient that was offered, in their order. A recipient of whom nothing was said may have been
/// sent to; of several verdicts the first counts; those for others are dropped.
fn complete(outcome: Outcome, recipients: &[RecipientIndex]) -> Outcome {
    let mut said = BTreeMap::new();
    for (recipient, verdict) in outcome.verdicts {
        said.entry(recipient).or_insert(verdict);
    }
    let verdicts = recipients
        .iter()
        .map(|&recipient| (recipient, said.remove(&recipient).unwrap_or_else(|| nobody_knows("no verdict"))))
        .collect();
    Outcome { verdicts, ..outcome }
}

fn nobody_knows(code: &str) -> Verdict {
    Verdict::new(Class::OutcomeUnknown, Scope::Wire, code, "")
}
