//! The other processes of the outbox: this one says that it is there, tells what it accepted and found out, and listens.
//!
//! Owns when that is done and that it goes on whatever fails; nothing depends on its success.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::accounts::Accounts;
use crate::outbox::{Outbox, OutboxError, Presence, Wake};

/// How often a process says that it is there: twice before it is taken for gone.
const PRESENT_EVERY: Duration = Duration::from_secs(12);

/// How long until it is said again where that failed.
const PRESENT_AGAIN: Duration = Duration::from_secs(1);

/// How often it is looked for messages that nobody would send.
const ADOPT_EVERY: Duration = Duration::from_secs(4 * PRESENT_EVERY.as_secs());

/// How often a process that sends, and cannot be told, reads what is known of providers. One that does not send has no
/// need to.
const READ_EVERY: Duration = Duration::from_secs(2);

/// Others are told no more often than this: what is accepted meanwhile is told together.
const TELL_EVERY: Duration = Duration::from_millis(10);

/// The pauses before it is tried again to listen.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// How long taking leave may take.
const LEAVE_LIMIT: Duration = Duration::from_secs(1);

/// What a process has to do with others.
pub(super) struct Company {
    pub(super) outbox: Outbox,
    pub(super) wake: Wake,
    pub(super) presence: Presence,
    /// What it shares with them, where it sends: then it takes what is accepted elsewhere.
    pub(super) accounts: Option<Accounts>,
    /// Whether it sees to messages that nobody would send.
    pub(super) maintains: bool,
}

impl Company {
    /// Says for the first time that it is there, and takes in what others know. Before anything is claimed: what they
    /// know to be down is not asked.
    pub(super) async fn arrive(&self) {
        self.be_present().await;
        self.wake.company_changed();
    }

    /// Works until told to stop; then takes its leave.
    pub(super) async fn keep(self, stop: CancellationToken) {
        let accounts = async {
            if let Some(accounts) = &self.accounts {
                accounts.keep().await;
            }
        };
        let work = async { tokio::join!(self.stay_present(), self.tell(), self.listen(), accounts) };
        tokio::select! {
            _ = work => {}
            () = stop.cancelled() => {}
        }
        // Without the database, others find out by themselves.
        drop(timeout(LEAVE_LIMIT, self.leave()).await);
    }

    async fn leave(&self) {
        if let Some(accounts) = &self.accounts {
            accounts.tell().await;
        }
        note("take leave", self.outbox.say_gone(&self.presence).await);
        // What was accepted last is told as well.
        if self.wake.others() > 0 {
            self.wake.company_changed();
            note("tell other processes", self.outbox.tell_others(&self.wake).await);
        }
    }

    /// Says that it is there, and goes by who else is. Whether it could.
    async fn be_present(&self) -> bool {
        let Some(company) = note("say that it is there", self.outbox.say_present(&self.presence).await) else {
            return false;
        };
        self.wake.set_others(company.others);
        match &self.accounts {
            Some(accounts) => note("read what is known of providers", accounts.go_by(&company).await).is_some(),
            None => true,
        }
    }

    async fn stay_present(&self) {
        let mut pause = PRESENT_EVERY;
        // By then whoever has just started has said which chains it has.
        let mut adopt_at = Instant::now() + PRESENT_EVERY;
        loop {
            self.until_told(Instant::now() + pause).await;
            pause = if self.be_present().await { PRESENT_EVERY } else { PRESENT_AGAIN };
            if self.maintains && adopt_at <= Instant::now() {
                adopt_at = Instant::now() + ADOPT_EVERY;
                self.adopt().await;
            }
        }
    }

    /// Waits until then, or until somebody says that he came or went. What is told of providers meanwhile is read.
    async fn until_told(&self, until: Instant) {
        loop {
            let cannot_be_told = self.accounts.is_some() && !self.wake.is_listening();
            tokio::select! {
                () = sleep_until(until) => return,
                heard = self.wake.heard() => {
                    if let (Some(accounts), true) = (&self.accounts, heard.providers) {
                        note("read what is known of providers", accounts.read().await);
                    }
                    if heard.company {
                        return;
                    }
                }
                () = sleep(READ_EVERY), if cannot_be_told => {
                    if let Some(accounts) = &self.accounts {
                        note("read what is known of providers", accounts.read_if_sending().await);
                    }
                }
            }
        }
    }

    /// Sees to messages of chains that nobody has any more.
    async fn adopt(&self) {
        if let Some(moved) = note("move what nobody would send", self.outbox.adopt_lanes().await)
            && moved > 0
        {
            tracing::warn!(messages = moved, "messages of chains that no process has go on in the default chain");
            self.wake.lanes_changed();
        }
    }

    /// Tells others what they may take, where there may be any.
    async fn tell(&self) {
        loop {
            self.wake.told_others().await;
            match self.wake.others() {
                // A process that does not send cannot know that somebody has just begun to.
                0 if self.accounts.is_some() => self.wake.forget_others(),
                _ => _ = note("tell other processes", self.outbox.tell_others(&self.wake).await),
            }
            sleep(TELL_EVERY).await;
        }
    }

    async fn listen(&self) {
        if self.accounts.is_none() {
            return;
        }
        let mut pause = SHORTEST_PAUSE;
        loop {
            let heard = match self.outbox.listener().await {
                Ok(Some(listener)) => {
                    pause = SHORTEST_PAUSE;
                    listener.hear(&self.wake).await
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            note("listen to other processes", heard);
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// What fails is made up for by those who look for themselves.
fn note<T>(what: &str, answer: Result<T, OutboxError>) -> Option<T> {
    answer.inspect_err(|error| tracing::debug!(what, %error, "it is tried again")).ok()
}
