//! The other processes of the outbox: this one says that it is there, tells what it accepted, and listens.
//!
//! Owns when that is done and that it goes on whatever fails; nothing depends on its success.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::outbox::{Outbox, OutboxError, Presence, Wake};

/// How often a process says that it is there: twice before it is taken for gone.
const PRESENT_EVERY: Duration = Duration::from_secs(12);

/// How many times as rarely it is looked for messages that nobody would send.
const ADOPT_EVERY: u64 = 4;

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
    /// Whether it takes what is accepted elsewhere.
    pub(super) sends: bool,
    /// Whether it sees to messages that nobody would send.
    pub(super) maintains: bool,
}

impl Company {
    /// Works until told to stop; then takes its leave.
    pub(super) async fn keep(self, stop: CancellationToken) {
        let work = async { tokio::join!(self.be_present(), self.tell(), self.listen()) };
        tokio::select! {
            _ = work => {}
            () = stop.cancelled() => {}
        }
        // Without the database, others find out by themselves.
        drop(timeout(LEAVE_LIMIT, self.leave()).await);
    }

    async fn leave(&self) {
        // What was accepted last is told as well.
        if self.wake.others() > 0 {
            note("tell other processes", self.outbox.tell_others(&self.wake).await);
        }
        note("take leave", self.outbox.say_gone(&self.presence).await);
    }

    async fn be_present(&self) {
        for turn in 0u64.. {
            if let Some(others) = note("say that it is there", self.outbox.say_present(&self.presence).await) {
                self.wake.set_others(others);
            }
            // By then whoever has just started has said which chains it has.
            if self.maintains && turn % ADOPT_EVERY == 1 {
                self.adopt().await;
            }
            sleep(PRESENT_EVERY).await;
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
                0 if self.sends => self.wake.forget_others(),
                _ => _ = note("tell other processes", self.outbox.tell_others(&self.wake).await),
            }
            sleep(TELL_EVERY).await;
        }
    }

    async fn listen(&self) {
        if !self.sends {
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
