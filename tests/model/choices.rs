//! Which way is gone: the dice, and what they mean in a world.
//!
//! Owns the odds. Kinds of actions are drawn first, so that the many answers of a provider do not crowd out the rest.

use std::mem::{Discriminant, discriminant};

use postrider::delivery::Class;
use proptest::prelude::*;

use super::{
    dispatcher::Deed,
    values::{Answer, Provider, Setup},
    world::{Action, SENDERS, World},
};

/// Everything that a provider can answer, what leads on more than once.
const ANSWERS: &[Answer] = &[
    Answer::Told(Class::Accepted),
    Answer::Told(Class::Accepted),
    Answer::Told(Class::Unavailable),
    Answer::TookSilently,
    Answer::Told(Class::Accepted),
    Answer::Told(Class::RecipientRejected),
    Answer::Told(Class::MessageRejected),
    Answer::Told(Class::UnfitHere),
    Answer::Told(Class::Deferred),
    Answer::Told(Class::Unavailable),
    Answer::Told(Class::Throttled),
    Answer::Told(Class::QuotaUsedUp),
    Answer::Told(Class::Misconfigured),
    Answer::Told(Class::OutcomeUnknown),
];

/// What decides a step: of which kind the action is, which of that kind, and whether another is done at once.
#[derive(Clone, Copy, Debug)]
pub struct Dice {
    kind: u8,
    which: u8,
    second: Option<u8>,
}

/// Dice for one step.
pub fn dice() -> impl Strategy<Value = Dice> {
    (any::<u8>(), any::<u8>(), prop::option::weighted(0.3, any::<u8>())).prop_map(|(kind, which, second)| Dice {
        kind,
        which,
        second,
    })
}

/// A message, and the world round it.
pub fn setups() -> impl Strategy<Value = Setup> {
    let keyed = prop::sample::select(vec![&[][..], &[Provider::First][..], &Provider::ALL[..]]);
    let expire_at = prop::option::weighted(0.3, 1u8..6);
    (1u8..=2, any::<bool>(), keyed, expire_at, 4u8..9, 1u8..4).prop_map(
        |(recipients, hold, keyed, expire_at, give_up_at, max_rounds)| Setup {
            recipients,
            hold,
            keyed,
            expire_at,
            give_up_at,
            max_rounds,
            senders: SENDERS,
            cancels: true,
            crashes: 2,
            answers: ANSWERS,
            broken: None,
        },
    )
}

/// What is done next, and what else at once. `None`: all is over, or the rest is known to go wrong.
pub fn choose(setup: &Setup, world: &World, dice: Dice) -> Option<(Action, Option<Action>)> {
    let first = draw(&world.actions(setup), dice)?;
    let second = dice.second.and_then(|which| companion(setup, world, first, which));
    Some((first, second))
}

/// First of which kind, then which of that kind.
fn draw(actions: &[Action], dice: Dice) -> Option<Action> {
    let mut kinds: Vec<Vec<Action>> = Vec::new();
    for action in actions {
        match kinds.iter_mut().find(|kind| kind_of(&kind[0]) == kind_of(action)) {
            Some(kind) => kind.push(*action),
            None => kinds.push(vec![*action]),
        }
    }
    let weights = kinds.iter().map(|kind| weight(&kind[0]));
    let mut turn = u32::from(dice.kind) % weights.clone().sum::<u32>().max(1);
    let chosen = weights.enumerate().find(|(_, weight)| match turn.checked_sub(*weight) {
        Some(rest) => {
            turn = rest;
            false
        }
        None => true,
    });
    let kind = &kinds[chosen?.0];
    kind.get(usize::from(dice.which) % kind.len()).copied()
}

fn kind_of(action: &Action) -> (Discriminant<Action>, Option<(usize, Discriminant<Deed>)>) {
    let deed = match action {
        Action::Do { by, deed } => Some((*by, discriminant(deed))),
        _ => None,
    };
    (discriminant(action), deed)
}

/// What ends a way early is rare, so that ways are long.
fn weight(action: &Action) -> u32 {
    match action {
        Action::Cancel | Action::Sweep => 1,
        Action::Do { deed: Deed::Crash | Deed::Stop | Deed::Skip | Deed::Release | Deed::Renew, .. } => 2,
        Action::Pass => 3,
        Action::Claim { .. } => 10,
        Action::Do { .. } => 12,
    }
}

/// Something that somebody else can do at the same time, if both speak to the outbox.
fn companion(setup: &Setup, world: &World, first: Action, which: u8) -> Option<Action> {
    let by = actor(setup, first)?;
    let mut others: Vec<Action> = world.actions(setup);
    let idle = (0..setup.senders).filter(|&by| world.senders[by].is_none());
    others.extend(idle.map(|by| Action::Claim { by, first: Provider::Second }));
    others.retain(|other| actor(setup, *other).is_some_and(|other| other != by));
    others.get(usize::from(which) % others.len().max(1)).copied()
}

/// Who speaks to the outbox in this action, in one statement as far as others can tell: a dispatcher or, as the last,
/// whoever calls the message off.
fn actor(setup: &Setup, action: Action) -> Option<usize> {
    match action {
        Action::Cancel => Some(SENDERS),
        Action::Claim { by, .. } => Some(by),
        // Where a recipient was accepted late it is two.
        Action::Do { by, deed: Deed::HandOver { .. } } => Some(by).filter(|_| setup.recipients == 1),
        Action::Do { by, deed: Deed::Settle { .. } | Deed::Release | Deed::Renew } => Some(by),
        _ => None,
    }
}
