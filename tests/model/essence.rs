//! What of a state matters for what can still happen: states that differ in nothing else are explored once.
//!
//! Owns only what makes the exploration small. Each simplification says why nothing can tell the difference; with a rule
//! broken on purpose those that lean on the fence are left out.

use std::hash::{DefaultHasher, Hash, Hasher};

use postrider::delivery::{Class, Status};

use super::{
    dispatcher::{Sender, Stage},
    record::{Row, Token},
    values::{Answer, Decision, Provider, Recipients, Setup, Tick},
    world::World,
};

/// The same state, without what neither an action nor a property depends on.
pub fn essence(setup: &Setup, mut world: World) -> World {
    world.record.history.clear();
    if world.record.row.is_none_or(|row| row.due_at.is_none()) {
        // Nothing is due any more, so it matters only whether a dispatcher that is late finds the message expired.
        world.now = setup.expire_at.filter(|at| *at <= world.now).unwrap_or(0);
    }
    if let Some(row) = &mut world.record.row {
        simplify_row(setup, row, world.now);
    }
    if setup.keyed.is_empty() {
        // Only a key cares who it was that delivered.
        world.delivered = [world.got(), Recipients::NONE];
    }
    if !setup.hold && world.record.told_unknown {
        world.twice = Recipients::NONE;
    }
    for by in 0..world.senders.len() {
        let is_late = !world.is_holder(by) && setup.broken.is_none();
        let Some(mut sender) = world.senders[by].take() else { continue };
        simplify_sender(&mut sender, world.now);
        world.senders[by] = if is_late { late(setup, &world, sender) } else { Some(sender) };
    }
    if setup.senders == 2 {
        order_senders(&mut world);
    }
    world
}

fn simplify_row(setup: &Setup, row: &mut Row, now: Tick) {
    row.attempts = row.attempts.min(1);
    row.last = row.last.map(|(provider, class)| match class {
        // Who did not tell is not asked first a second time.
        Class::OutcomeUnknown if !setup.hold => (provider, class),
        _ => (Provider::First, Class::Accepted),
    });
    row.unknown_since = row.unknown_since.map(|_| 0);
    row.begun_at = row.begun_at.map(|_| 0);
    // What is due is due, since whenever.
    row.due_at = row.due_at.map(|due_at| due_at.max(now));
    if row.due_at.is_none() {
        row.rounds = 0;
        row.cancel_requested = false;
        row.provider = None;
        row.last = row.last.map(|_| (Provider::First, Class::Accepted));
    }
}

fn simplify_sender(sender: &mut Sender, now: Tick) {
    sender.claimed.unknown_since = sender.claimed.unknown_since.map(|_| 0);
    for one in &mut sender.tries {
        one.started_at = 0;
    }
    if let Stage::Settling(Decision::Again { due_at, .. }) = &mut sender.stage {
        *due_at = now.max(*due_at);
    }
    if !matches!(sender.stage, Stage::Offering) {
        sender.skipped.clear();
    }
}

/// A dispatcher that has lost its lease cannot get it back: whatever it decides, it only brings its attempts late.
fn late(setup: &Setup, world: &World, mut sender: Sender) -> Option<Sender> {
    let may_ask = |next| !sender.must_write(next);
    let asks = sender.stage == Stage::Offering && sender.next_provider(setup).is_some_and(may_ask);
    if asks {
        return Some(sender);
    }
    let has_news = sender.tries[sender.written..].iter().any(|one| !one.is_recorded);
    if !has_news {
        return None;
    }
    let is_unknown_news = !world.record.told_unknown;
    for answer in sender.tries.iter_mut().flat_map(|one| one.answers.iter_mut().flatten()) {
        let class = answer.class();
        if class != Class::Accepted && !(is_unknown_news && class == Class::OutcomeUnknown) {
            *answer = Answer::Told(Class::Unavailable);
        }
    }
    sender.claimed.rounds = 0;
    sender.claimed.untried = false;
    sender.claimed.accepted_before = false;
    sender.claimed.unknown_since = None;
    sender.claimed.unknown_at = None;
    sender.claimed.ask_first = false;
    sender.cancel_requested = false;
    sender.skipped.clear();
    sender.offered = Recipients::NONE;
    sender.on_record = None;
    sender.stage = Stage::Settling(Decision::Finished(Status::SuccessSent));
    Some(sender)
}

/// Of two dispatchers it does not matter which is which.
fn order_senders(world: &mut World) {
    let is_in_order = match &world.senders {
        [_, None, _] => true,
        [None, Some(_), _] => false,
        [Some(first), Some(second), _] => digest(first) <= digest(second),
    };
    if is_in_order {
        return;
    }
    world.senders.swap(0, 1);
    let holder = world.record.row.as_mut().and_then(|row| row.token.as_mut());
    if let Some(Token::Of(by)) = holder {
        *by = 1 - *by;
    }
}

fn digest(sender: &Sender) -> u64 {
    let mut hasher = DefaultHasher::new();
    sender.hash(&mut hasher);
    hasher.finish()
}
