//! Model and Postgres go the same random ways, and are compared after each step.
//!
//! Owns the ways: which action is next, and which two are done at once. What is done at once must come out as if one had
//! been done after the other. A way that fails is made shorter by proptest until nothing can be left out of it.
//!
//! `POSTRIDER_MODEL_CASES` says how many ways to go, `POSTRIDER_MODEL_SEED` which.

use std::{env, str::FromStr};

use postrider::delivery::Class;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

use super::{
    dispatcher::Deed,
    outbox_driver::{OutboxDriver, Processes, Seen},
    properties::{flaw, flaw_of_step},
    record::{Look, Record},
    values::{Answer, Provider, Setup},
    world::{Action, Heard, SENDERS, World},
};

/// How many ways are gone when nobody says otherwise.
const CASES: u32 = 150;

/// The longest way.
const STEPS: usize = 60;

/// Everything that a provider can answer.
const ANSWERS: &[Answer] = &[
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
struct Dice {
    kind: u8,
    which: u8,
    second: Option<u8>,
}

fn dice() -> impl Strategy<Value = Dice> {
    (any::<u8>(), any::<u8>(), prop::option::weighted(0.3, any::<u8>())).prop_map(|(kind, which, second)| Dice {
        kind,
        which,
        second,
    })
}

fn setups() -> impl Strategy<Value = Setup> {
    let keyed = prop::sample::select(vec![&[][..], &[Provider::First][..], &Provider::ALL[..]]);
    let expire_at = prop::option::weighted(0.4, 1u8..4);
    (1u8..=2, any::<bool>(), keyed, expire_at, 3u8..6, 2u8..4).prop_map(
        |(recipients, hold, keyed, expire_at, give_up_at, max_rounds)| Setup {
            recipients,
            hold,
            keyed,
            expire_at,
            give_up_at,
            max_rounds,
            senders: SENDERS,
            crashes: 2,
            answers: ANSWERS,
            corrected: false,
            broken: None,
        },
    )
}

#[test]
fn model_and_postgres_go_the_same_ways() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let processes = runtime.block_on(Processes::start());
    let seed = setting("POSTRIDER_MODEL_SEED").unwrap_or_else(rand::random::<u64>);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config {
        cases: setting("POSTRIDER_MODEL_CASES").unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_time: 60_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let mut steps = 0;
    let ways = (setups(), vec(dice(), 1..STEPS));
    let result = runner.run(&ways, |(setup, dice)| {
        let mut way = Vec::new();
        let walked = runtime.block_on(walk(&processes, &setup, &dice, &mut way));
        walked.map_err(|error| TestCaseError::fail(format!("{error}\nafter {way:#?}")))
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(why, (setup, _))) => panic!("POSTRIDER_MODEL_SEED={seed}: {why}\nof {setup:?}"),
        Err(TestError::Abort(why)) => panic!("POSTRIDER_MODEL_SEED={seed}: {why}"),
    }
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

/// Goes one way. `way` tells how far it came.
async fn walk(
    processes: &Processes,
    setup: &Setup,
    dice: &[Dice],
    way: &mut Vec<(Action, Option<Action>)>,
) -> Result<(), String> {
    let mut driver = processes.accept(setup).await;
    let mut world = World::accepted(setup);
    same(&driver.look(world.now).await, &world)?;
    for dice in dice {
        let Some(first) = choose(&world.actions(setup), *dice) else { break };
        let second = dice.second.and_then(|which| companion(setup, &world, first, which));
        way.push((first, second));
        world = match second {
            None => step(&mut driver, setup, &world, first).await?,
            Some(second) => step_at_once(&mut driver, setup, &world, [first, second]).await?,
        };
        if let Some(flaw) = flaw(setup, &world) {
            return Err(flaw);
        }
    }
    Ok(())
}

/// One action.
async fn step(driver: &mut OutboxDriver<'_>, setup: &Setup, world: &World, action: Action) -> Result<World, String> {
    let (after, expected) = world.after(setup, action);
    let reply = driver.call(world, action).await;
    driver.note(action, &reply);
    if plain(reply.heard) != plain(expected) {
        return Err(format!("the outbox answered {:?} and not {expected:?}", reply.heard));
    }
    same(&driver.look(after.now).await, &after)?;
    flaw_of_step(world, action, &after).map_or(Ok(after), Err)
}

/// Two actions at the same time: it comes out as if one had been done after the other.
async fn step_at_once(
    driver: &mut OutboxDriver<'_>,
    setup: &Setup,
    world: &World,
    actions: [Action; 2],
) -> Result<World, String> {
    let [first, second] = actions;
    let (one, other) = tokio::join!(driver.call(world, first), driver.call(world, second));
    driver.note(first, &one);
    driver.note(second, &other);
    let seen = driver.look(world.now).await;
    let heard = [plain(one.heard), plain(other.heard)];
    for (after, expected) in orders(setup, world, actions) {
        if expected.map(plain) == heard && same(&seen, &after).is_ok() {
            return Ok(after);
        }
    }
    let worlds: Vec<_> =
        orders(setup, world, actions).into_iter().map(|(after, heard)| (heard, after.record)).collect();
    Err(format!("done at once the outbox answered {heard:?} and is {seen:#?}, which no order explains: {worlds:#?}"))
}

/// What can come of two actions that are done at once. A claim passes over what another statement has locked.
fn orders(setup: &Setup, world: &World, [first, second]: [Action; 2]) -> Vec<(World, [Heard; 2])> {
    let mut found = Vec::new();
    let (after_first, heard_first) = world.after(setup, first);
    let (after_both, heard_second) = after_first.after(setup, second);
    found.push((after_both, [heard_first, heard_second]));
    let (after_second, heard_second_first) = world.after(setup, second);
    let (after_both, heard_first_last) = after_second.after(setup, first);
    found.push((after_both, [heard_first_last, heard_second_first]));
    let nothing = Heard::Looked(Look::Nothing);
    if matches!(second, Action::Claim { .. }) {
        found.push((after_first, [heard_first, nothing]));
    }
    if matches!(first, Action::Claim { .. }) {
        found.push((after_second, [nothing, heard_second_first]));
    }
    found
}

/// An answer as a caller can tell it from others.
fn plain(heard: Heard) -> Heard {
    match heard {
        Heard::Looked(Look::Claimed(mut claimed)) => {
            claimed.unknown_since = claimed.unknown_since.map(|_| 0);
            Heard::Looked(Look::Claimed(claimed))
        }
        Heard::Looked(Look::Ended) => Heard::Looked(Look::Nothing),
        heard => heard,
    }
}

/// Whether Postgres has the message as the model has it.
fn same(seen: &Seen, world: &World) -> Result<(), String> {
    let Record { mut row, finished, history, .. } = world.record.clone();
    if let Some(row) = &mut row {
        row.unknown_since = row.unknown_since.map(|_| 0);
        row.begun_at = row.begun_at.map(|_| 0);
    }
    let expected = Seen { row, finished, history };
    if *seen == expected { Ok(()) } else { Err(format!("Postgres has {seen:#?} and not {expected:#?}")) }
}

/// First of which kind, so that the many answers of a provider do not crowd out the rest.
fn choose(actions: &[Action], dice: Dice) -> Option<Action> {
    let kinds: Vec<String> = actions.iter().map(kind).collect();
    let mut distinct = kinds.clone();
    distinct.sort();
    distinct.dedup();
    let chosen = distinct.get(usize::from(dice.kind) % distinct.len().max(1))?;
    let of_kind: Vec<Action> =
        actions.iter().zip(&kinds).filter(|(_, kind)| *kind == chosen).map(|(a, _)| *a).collect();
    of_kind.get(usize::from(dice.which) % of_kind.len()).copied()
}

fn kind(action: &Action) -> String {
    let whole = match action {
        Action::Do { by, deed } => format!("{by} {deed:?}"),
        Action::Claim { .. } => "Claim".to_owned(),
        other => format!("{other:?}"),
    };
    whole.split(['(', '{']).next().unwrap_or_default().to_owned()
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

/// The dispatcher that speaks to the outbox in this action, in one statement as far as others can tell.
fn actor(setup: &Setup, action: Action) -> Option<usize> {
    match action {
        Action::Claim { by, .. } => Some(by),
        // Where a recipient was accepted late it is two.
        Action::Do { by, deed: Deed::HandOver { .. } } => Some(by).filter(|_| setup.recipients == 1),
        Action::Do { by, deed: Deed::Settle { .. } | Deed::Release | Deed::Renew } => Some(by),
        _ => None,
    }
}
