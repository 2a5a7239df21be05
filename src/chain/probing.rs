//! Finding out without a message whether an account is set up again, where the provider has a cheap call for it.
//!
//! Owns when that call is made. Without one, or where it cannot tell, one message after the rest finds it out.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use tokio::time::sleep;

use super::{Links, link::Link};

/// An account that is left out is asked for this many times before a message is.
const TIMES: u32 = 5;

/// The shortest time between two of these calls, however short the rest is.
const SHORTEST: Duration = Duration::from_millis(10);

impl Links {
    /// Asks now and then for each account that is left out, where there is a call for it.
    pub async fn probe_accounts(&self) {
        join_all(self.links.values().map(|link| probe(link.clone()))).await;
    }
}

async fn probe(link: Arc<Link>) {
    let gate = link.admission().gate();
    let pause = (link.account_rest() / TIMES).max(SHORTEST);
    loop {
        sleep(pause).await;
        // Of the processes that share the account one asks, and all hear of it.
        if !link.is_first() || !gate.may_be_probed() {
            continue;
        }
        // Made only now: it may hold a signature that does not last.
        let Some(answer) = link.provider().probe() else { return };
        match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(health) => gate.probed(health),
            Err(_) => tracing::error!(provider = link.name().as_str(), "the adapter panicked"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use crate::{
        chain::testing::{Mock, Rig, answer, offer, settings, summary},
        delivery::{Class, Health, ProviderName},
        health::Share,
    };

    /// A provider with such a call, which answers so, and another. An account is left out for 300 s.
    fn rig(answers: impl IntoIterator<Item = Health>) -> Rig {
        Rig::with_settings([(Mock::new("a").probed(answers), settings()), (Mock::new("b"), settings())])
    }

    async fn put_out(rig: &Rig) {
        rig.mock("a").will([answer(Class::Misconfigured, Health::Misconfigured)]);
        assert_eq!(summary(&rig.send(offer(1)).await), "a:MISCONFIGURED b:ACCEPTED");
    }

    async fn pass(seconds: u64) {
        for _ in 0..seconds {
            advance(Duration::from_secs(1)).await;
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_that_is_set_up_again_comes_back_without_a_message() {
        let rig = rig([Health::Misconfigured, Health::Neutral, Health::Healthy]);
        let links = rig.links.clone();
        let probing = tokio::spawn(async move { links.probe_accounts().await });
        put_out(&rig).await;
        pass(170).await;
        assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(misconfigured)");
        pass(20).await;
        assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
        assert_eq!(rig.mock("a").probes(), 3);
        pass(1000).await;
        assert_eq!(rig.mock("a").probes(), 3, "nobody asks for one that is set up");
        probing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_call_says_that_it_is_not_set_up_no_message_is_tried() {
        let rig = rig(vec![Health::Misconfigured; 100]);
        let links = rig.links.clone();
        let probing = tokio::spawn(async move { links.probe_accounts().await });
        put_out(&rig).await;
        pass(1500).await;
        assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(misconfigured)");
        assert_eq!(rig.mock("a").calls(), 1);
        probing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_was_wrong_is_not_believed_again_before_a_message_got_through() {
        let rig = rig(vec![Health::Healthy; 100]);
        let links = rig.links.clone();
        let probing = tokio::spawn(async move { links.probe_accounts().await });
        put_out(&rig).await;
        pass(61).await;
        put_out(&rig).await;
        assert_eq!(rig.mock("a").probes(), 1);
        pass(298).await;
        assert_eq!(rig.mock("a").probes(), 1);
        assert_eq!(summary(&rig.send(offer(1)).await), "b:ACCEPTED a(misconfigured)");
        pass(3).await;
        assert_eq!(summary(&rig.send(offer(1)).await), "a:ACCEPTED");
        put_out(&rig).await;
        pass(61).await;
        assert_eq!(rig.mock("a").probes(), 2);
        probing.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_processes_the_first_asks() {
        let rig = rig(vec![Health::Healthy; 100]);
        let links = rig.links.clone();
        let probing = tokio::spawn(async move { links.probe_accounts().await });
        rig.links.keep_to(&[(ProviderName::new("a"), Share::new(1, 3))].into());
        put_out(&rig).await;
        pass(200).await;
        assert_eq!(rig.mock("a").probes(), 0);
        probing.abort();
    }
}
