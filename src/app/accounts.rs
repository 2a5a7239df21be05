//! The accounts behind this process's providers, which it shares with other processes: their limits, and what is known
//! of them.
//!
//! Owns when others are told and heard. What follows from their word is the chain's to say; nothing depends on its
//! coming in time.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Mutex as Turn, time::sleep};

use crate::{
    chain::Links,
    delivery::ProviderName,
    health::{Share, SharedState},
    outbox::{Company, Outbox, OutboxError, Wake},
};

/// Others are told no more often than this: a provider that throttles us every second is no news each time.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The accounts of a process that sends.
pub(super) struct Accounts {
    outbox: Outbox,
    wake: Wake,
    links: Links,
    shares: Mutex<BTreeMap<ProviderName, Share>>,
    /// By which it shows whether something is known that was not when it was last read.
    states: AtomicI64,
    /// How often providers had been asked when that was.
    calls: AtomicU64,
    /// Held while others are told or heard: what is on its way to them must not be overtaken by what they said before.
    turn: Turn<()>,
}

impl Accounts {
    pub(super) fn new(outbox: Outbox, wake: Wake, links: Links) -> Self {
        let (states, calls) = (AtomicI64::new(0), AtomicU64::new(0));
        Self { outbox, wake, links, shares: Mutex::default(), states, calls, turn: Turn::new(()) }
    }

    /// Tells others what is found out here, and asks for accounts that are left out, for as long as it is polled.
    pub(super) async fn keep(&self) {
        let tell = async {
            loop {
                self.links.found().await;
                self.tell().await;
                sleep(TELL_EVERY).await;
            }
        };
        tokio::join!(tell, self.links.probe_accounts());
    }

    /// Tells others once what was found out since they were last told.
    pub(super) async fn tell(&self) {
        let _turn = self.turn.lock().await;
        for (provider, findings) in self.links.take_findings() {
            match self.outbox.find_out(&provider, &findings).await {
                Ok(state) => {
                    state.into_iter().for_each(|state| self.links.learn(state));
                    self.wake.found_out();
                }
                Err(error) => {
                    tracing::debug!(provider = provider.as_str(), %error, "others are told later");
                    self.links.put_back(&provider, findings);
                }
            }
        }
    }

    /// Goes by who is there: keeps to this process's shares of the limits, and reads what is known where that is new.
    pub(super) async fn go_by(&self, company: &Company) -> Result<(), OutboxError> {
        self.share(&company.shares);
        match self.states.load(Ordering::Relaxed) == company.states {
            true => Ok(()),
            false => {
                self.learn(company.others == 0).await.inspect(|()| self.states.store(company.states, Ordering::Relaxed))
            }
        }
    }

    /// Reads what others know and what operators want.
    pub(super) async fn read(&self) -> Result<(), OutboxError> {
        self.learn(false).await
    }

    /// The same, if providers were asked since.
    pub(super) async fn read_if_sending(&self) -> Result<(), OutboxError> {
        let calls = self.links.calls();
        match self.calls.swap(calls, Ordering::Relaxed) == calls {
            true => Ok(()),
            false => self.read().await,
        }
    }

    async fn learn(&self, is_alone: bool) -> Result<(), OutboxError> {
        let _turn = self.turn.lock().await;
        for state in self.outbox.provider_states().await? {
            self.links.learn(if is_alone { self.of_the_dead(state) } else { state });
        }
        // What was turned on again may be sent to.
        self.wake.ring();
        Ok(())
    }

    /// What a process knew that is gone. A circuit that it opened is tried at once: perhaps it was restarted because of
    /// that.
    fn of_the_dead(&self, mut state: SharedState) -> SharedState {
        let now = self.outbox.clock().now();
        if let Some(opened) = &mut state.known.circuit {
            opened.until = opened.until.min(now);
        }
        state
    }

    fn share(&self, shares: &BTreeMap<ProviderName, Share>) {
        let mut before = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if *before == *shares {
            return;
        }
        self.links.keep_to(shares);
        for (provider, share) in shares {
            let processes = share.processes();
            if processes != before.get(provider).copied().unwrap_or_default().processes() {
                tracing::info!(provider = provider.as_str(), processes, "an account's limits are shared anew");
            }
        }
        *before = shares.clone();
        // A larger share may be room for what waits.
        self.wake.ring();
    }
}
