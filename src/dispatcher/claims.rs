//! The loop that claims what is due: as much as there are places for, when it is told or when it is time.
//!
//! Owns the order of its steps. Whose turn it is stands in the lane book, when it looks for itself in the agenda.

mod pauses;

use std::{collections::BTreeMap, time::Duration};

use time::OffsetDateTime;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    Dispatcher,
    agenda::Agenda,
    lanes::{Deal, SharedBook},
    outage::Outage,
    places::{FreePlace, Places},
    rooms::Rooms,
    send::{Job, Sender},
};
use crate::outbox::{ClaimRequest, Claims as Claimed, News, OutboxError};

/// The shortest time from a claim that found nothing to one that only the time gave a reason for.
const SETTLING: Duration = Duration::from_millis(5);

/// By when a statement has ended whose connection was lost, as a rule: what it held is free again or taken.
const FIRST_TRY_ENDS: Duration = Duration::from_secs(1);

/// By how much the clock may seem wrong before it is measured anew.
const CLOCK_TOLERANCE: Duration = Duration::from_millis(500);

/// The longest pause after a statement that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Claims<'a> {
    dispatcher: &'a Dispatcher,
    sender: Sender,
    outage: Outage,
    places: Places,
    tasks: TaskTracker,
    /// After an outage, until when others may renew their leases before they are taken over.
    others_until: Option<Instant>,
    book: SharedBook,
    agenda: Agenda,
    /// Whether the last claim left something behind.
    has_backlog: bool,
    /// Until when nothing is claimed for the time alone.
    quiet_until: Instant,
}

/// What a turn came to.
enum Turn {
    /// There may be more to do.
    Worked,
    /// There is nothing to do before that time, unless somebody tells.
    RestUntil(Instant),
}

impl<'a> Claims<'a> {
    pub(super) fn new(
        dispatcher: &'a Dispatcher,
        sender: Sender,
        outage: Outage,
        places: Places,
        book: SharedBook,
        tasks: TaskTracker,
    ) -> Self {
        Self {
            dispatcher,
            sender,
            outage,
            places,
            tasks,
            others_until: None,
            book,
            agenda: Agenda::new(&dispatcher.settings),
            has_backlog: false,
            quiet_until: Instant::now(),
        }
    }

    /// Claims until told to stop.
    pub(super) async fn run(mut self, stop: &CancellationToken) {
        let shortest = self.dispatcher.settings.poll_shortest;
        let mut pause = shortest;
        while !stop.is_cancelled() {
            // A turn is not abandoned half way: what it took would lie until its lease ran out.
            let turn = self.turn().await;
            self.report(&turn);
            match turn {
                Ok(Turn::Worked) => pause = shortest,
                Ok(Turn::RestUntil(until)) => {
                    pause = shortest;
                    self.rest(until, stop).await;
                }
                Err(error) => {
                    self.outage.note(&error);
                    tokio::select! {
                        () = sleep(pause) => {}
                        () = stop.cancelled() => {}
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn turn(&mut self) -> Result<Turn, OutboxError> {
        self.see_to_our_own().await?;
        self.take_in_news();
        if self.agenda.look_at <= Instant::now() {
            self.look().await?;
        }
        if !self.dispatcher.wake.is_listening() && self.agenda.poll_at <= Instant::now() {
            self.book.lock().mark_all();
            self.agenda.polled();
        }
        let rooms = self.rooms();
        if self.agenda.sweep_at <= Instant::now() && self.takes_over() {
            self.sweep(&rooms).await?;
        }
        if self.claim(rooms).await? {
            return Ok(Turn::Worked);
        }
        let rooms = self.rooms();
        self.ask_next_due(&rooms).await?;
        Ok(Turn::RestUntil(self.next_turn_at(&rooms)))
    }

    /// After an outage our own comes first: leases that ran out meanwhile are renewed and outcomes written, or this
    /// process would take its own messages over and send them again. Others get the time of a lease to do the same.
    async fn see_to_our_own(&mut self) -> Result<(), OutboxError> {
        if !self.outage.take() {
            // Renewals can be late without an outage: the database is slow, or all connections are taken.
            return if self.sender.leases.has_any_run_out() { self.sender.leases.renew_all().await } else { Ok(()) };
        }
        self.others_until = Some(Instant::now() + self.dispatcher.settings.lease);
        self.sender.leases.renew_all().await?;
        // Whatever was told meanwhile may be lost. And whether it is back shows by a statement.
        self.agenda.look_now();
        if self.sender.settler.has_written_all() {
            return Ok(());
        }
        Err(OutboxError::Unavailable("outcomes of before are not written yet".into()))
    }

    fn takes_over(&self) -> bool {
        self.others_until.is_none_or(|until| until <= Instant::now())
    }

    fn take_in_news(&mut self) {
        let News { now: due, later, look_anew } = self.dispatcher.wake.take();
        let now = self.now();
        let mut knows_all = !look_anew;
        let mut book = self.book.lock();
        for (lane, due_at) in due {
            knows_all &= book.expect(lane, due_at.min(now), now);
        }
        for (due_at, lane) in later {
            knows_all &= book.expect(lane, due_at, now);
        }
        drop(book);
        if !knows_all {
            self.agenda.look_soon();
        }
    }

    /// Looks at every lane from its beginning.
    async fn look(&mut self) -> Result<(), OutboxError> {
        let (began, now) = (Instant::now(), self.now());
        let seen = self.dispatcher.outbox.look().await?;
        self.agenda.looked(began.elapsed(), self.processes());
        self.book.lock().learn(seen, now);
        Ok(())
    }

    /// How many processes send from this outbox.
    fn processes(&self) -> usize {
        self.dispatcher.wake.others() + 1
    }

    fn now(&self) -> OffsetDateTime {
        self.dispatcher.outbox.clock().now()
    }

    fn rooms(&self) -> Rooms {
        Rooms::of(&self.dispatcher.chains)
    }

    /// Ends what must not wait any longer where nothing is claimed.
    async fn sweep(&mut self, rooms: &Rooms) -> Result<(), OutboxError> {
        // Where there is no place, nothing is claimed of any lane.
        let nothing = BTreeMap::new();
        let is_full = self.places.free() == 0 || rooms.places() == 0;
        let open = if is_full { &nothing } else { &rooms.open };
        let closed = self.book.lock().closed(&self.dispatcher.chains, open, self.now());
        let began = Instant::now();
        if !closed.is_empty() {
            self.dispatcher.outbox.sweep(&closed).await?;
        }
        self.agenda.swept(began.elapsed(), self.processes());
        Ok(())
    }

    /// Claims once, if something may be due and there is room for it. Whether it found anything.
    async fn claim(&mut self, rooms: Rooms) -> Result<bool, OutboxError> {
        if !self.book.lock().is_waiting(&rooms.open, self.now()) {
            self.has_backlog = false;
            return Ok(false);
        }
        let rooms = self.linger(rooms).await;
        let wanted = self.places.free().min(self.dispatcher.settings.claim_size).min(rooms.places());
        let places = self.places.take(wanted);
        if places.is_empty() {
            return Ok(false);
        }
        let deal = self.book.lock().deal(places.len(), &rooms.open, self.now());
        if deal.lanes.is_empty() {
            return Ok(false);
        }
        let began = Instant::now();
        let claims = self.dispatcher.outbox.claim(&self.request(&deal)).await?;
        self.check_clock(claims.at, began.elapsed()).await;
        self.book.lock().note(&deal, &claims);
        self.has_backlog = claims.has_rest();
        if claims.made_again {
            self.agenda.look_within(FIRST_TRY_ENDS);
        }
        let found = claims.lanes.iter().any(|lane| lane.found > 0);
        match found {
            true => self.agenda.found_something(),
            false => self.quiet_until = Instant::now() + SETTLING,
        }
        self.spawn(claims, places);
        Ok(found)
    }

    fn request(&self, deal: &Deal) -> ClaimRequest {
        let Dispatcher { chains, settings, retry, .. } = self.dispatcher;
        ClaimRequest {
            lanes: deal.lanes.clone(),
            limit: deal.messages,
            lease: settings.lease,
            max_rounds: retry.max_rounds,
            idempotent: chains.values().flat_map(|chain| chain.idempotent()).collect(),
            takes_over: self.takes_over(),
        }
    }

    /// A clock that was set makes what is due look as if it were not, or the other way round: it is measured anew.
    async fn check_clock(&self, at: OffsetDateTime, took: Duration) {
        let now = self.now();
        if now > at + took + CLOCK_TOLERANCE || now + CLOCK_TOLERANCE < at {
            tracing::warn!("the clock differs from the database's; it is measured anew");
            if let Err(error) = self.dispatcher.outbox.measure_clock().await {
                tracing::warn!(%error, "the clock could not be measured");
            }
        }
    }

    /// Where a lane's next due time is not known, asks for it.
    async fn ask_next_due(&mut self, rooms: &Rooms) -> Result<(), OutboxError> {
        let unknown = self.book.lock().unknown(&rooms.open, self.now());
        if !unknown.is_empty() {
            let answer = self.dispatcher.outbox.next_due(&unknown).await?;
            self.book.lock().note_next_due(&unknown, answer);
        }
        Ok(())
    }

    /// Tells once when the database goes, and once when it is back.
    fn report(&self, turn: &Result<Turn, OutboxError>) {
        let is_there = turn.is_ok();
        if !self.dispatcher.database.send_if_modified(|was| std::mem::replace(was, is_there) != is_there) {
            return;
        }
        match turn {
            Ok(_) => tracing::info!("the database is back"),
            Err(error) => {
                tracing::error!(%error, "nothing can be claimed; it is tried again until the database is back")
            }
        }
    }

    /// Sends each of the messages in a task of its own, so that a slow one holds up no other.
    fn spawn(&self, claimed: Claimed, places: Vec<FreePlace>) {
        let jobs: Vec<Job> = claimed
            .messages
            .into_iter()
            .zip(places)
            .map(|(message, place)| self.sender.job(message, self.places.occupy(place)))
            .collect();
        if !jobs.is_empty() {
            let sender = self.sender.clone();
            self.tasks.spawn(async move { sender.send_all(jobs).await });
        }
    }
}
