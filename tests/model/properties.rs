//! What must be true of every state and every step, and the model that is explored for it.
//!
//! Owns the promises; what happens is in [`super::world`].

use postrider::delivery::{Class, Status};

use super::{
    dispatcher::{Deed, Stage},
    essence::essence,
    explore::Model,
    record::{Record, Row},
    values::{Recipients, Setup},
    world::{Action, World},
};

/// The life of one message.
pub struct Life {
    pub setup: Setup,
}

impl Model for Life {
    type State = World;
    type Action = Action;

    fn initial(&self) -> Vec<World> {
        vec![World::accepted(&self.setup), World::accepted_leased(&self.setup)]
    }

    fn actions(&self, world: &World) -> Vec<Action> {
        world.actions(&self.setup)
    }

    fn after(&self, world: &World, action: Action) -> World {
        world.after(&self.setup, action).0
    }

    fn essence(&self, world: World) -> World {
        essence(&self.setup, world)
    }

    fn flaw(&self, world: &World) -> Option<String> {
        flaw(&self.setup, world)
    }

    fn flaw_of_step(&self, before: &World, action: Action, after: &World) -> Option<String> {
        flaw_of_step(before, action, after)
    }

    fn is_end(&self, world: &World) -> bool {
        let status = world.record.status();
        world.senders.iter().all(Option::is_none)
            && status.is_some_and(|status| status.is_finished() || status.is_failed())
    }

    fn is_way_out(&self, action: Action) -> bool {
        !matches!(action, Action::Cancel | Action::Do { deed: Deed::Crash, .. })
    }
}

/// What is wrong with a state.
pub fn flaw(setup: &Setup, world: &World) -> Option<String> {
    let record = &world.record;
    if record.row.is_some() == record.finished.is_some() {
        return Some("the message is lost, or there twice".into());
    }
    if let Some(check) = record.row.and_then(|row| row.refused_by()) {
        return Some(format!("the table refuses the row: {check}"));
    }
    if record.row.is_some_and(|row| row.rounds > setup.max_rounds) {
        return Some("more rounds were spent than allowed".into());
    }
    if world.is_unaccounted {
        return Some("an attempt was begun that the history will never hold".into());
    }
    if !world.twice.is_empty() && setup.hold {
        return Some("sent twice although the caller asked not to risk it".into());
    }
    if !world.twice.is_empty() && !record.told_unknown {
        return Some("sent twice without an unknown outcome in the history".into());
    }
    let got = world.got();
    match record.finished {
        Some(Status::Expired | Status::Canceled) if !got.is_empty() => Some("it says not sent, and was".into()),
        Some(Status::SuccessSent) if got.is_empty() => Some("it says sent, and was not".into()),
        _ => None,
    }
}

/// What is wrong with a step.
pub fn flaw_of_step(before: &World, action: Action, after: &World) -> Option<String> {
    if before.record.finished.is_some() && (before.record.finished != after.record.finished) {
        return Some("what was finished has changed".into());
    }
    match action {
        Action::Cancel => after
            .record
            .row
            .filter(|row| row.token.is_none() && row.status != Status::FailedOutcomeUnknown)
            .map(|_| "a message that was called off goes on waiting".into()),
        Action::Claim { by, .. } => after.senders[by]
            .as_ref()
            .filter(|sender| !sender.claimed.open.and(after.record.told_accepted).is_empty())
            .map(|_| "a claim hands out a recipient that was accepted".into()),
        Action::Do { by, deed } if !before.is_holder(by) => stale_flaw(before, by, deed, after),
        Action::Do { by, deed: Deed::HandOver { is_answered: true } } => after.senders[by]
            .as_ref()
            .filter(|sender| sender.stage == Stage::Offering)
            .filter(|sender| !sender.offered.and(after.record.told_accepted).is_empty())
            .map(|_| "a recipient that was accepted is about to be offered".into()),
        _ => None,
    }
}

/// What is wrong with a step of a dispatcher that has lost its lease: it may only add to the history, and take away the
/// recipients that it tells were accepted.
fn stale_flaw(before: &World, by: usize, deed: Deed, after: &World) -> Option<String> {
    let (was, is) = (&before.record, &after.record);
    if !matches!(deed, Deed::Settle { .. }) {
        return (was != is).then(|| "somebody without a lease changed the message".into());
    }
    let sender = before.senders[by].as_ref()?;
    let unwritten = &sender.tries[sender.written..];
    let accepted =
        unwritten.iter().filter(|one| !one.is_recorded).map(|one| one.left(|class| class == Class::Accepted));
    let accepted = accepted.fold(Recipients::NONE, Recipients::or);
    match without(was, accepted) == (is.row, is.finished) {
        true => None,
        false if is.row == was.row => Some("an acceptance that came late is sent again".into()),
        false => Some("a stale holder changed something newer".into()),
    }
}

type Standing = (Option<Row>, Option<Status>);

/// Where a message stands once these recipients are known to be accepted.
fn without(record: &Record, accepted: Recipients) -> Standing {
    let Some(mut row) = record.row else { return (None, record.finished) };
    let is_settled = matches!(row.status, Status::NotYetSent | Status::FailedNotRetryable);
    if accepted.is_empty() || is_settled {
        return (Some(row), None);
    }
    row.open = row.open.without(accepted);
    row.accepted_before = true;
    if row.open.is_empty() { (None, Some(Status::SuccessSent)) } else { (Some(row), None) }
}
