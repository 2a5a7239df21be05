//! Model and Postgres go the same random ways, and are compared after each step.
//!
//! Owns the comparison; which way is gone is in [`super::choices`]. What is done at once must come out as if one had
//! been done after the other. A way that fails is made shorter by proptest until nothing can be left out of it.
//!
//! They are the same ways each time. `POSTRIDER_MODEL_CASES` says how many others to go, `POSTRIDER_MODEL_SEED` which. A
//! seed does not bring back every failure of two things done at once: their order is Postgres' own.

use std::{cell::RefCell, collections::BTreeSet, env, str::FromStr};

use postrider::{delivery::Status, outbox::EventKind};
use proptest::{
    collection::vec,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use tokio::runtime::{Builder, Runtime};

use super::{
    choices::{Dice, choose, dice, setups},
    outbox_driver::{OutboxDriver, Processes},
    properties::{flaw, flaw_of_step},
    record::{Look, Record},
    seen::Seen,
    values::{Broken, Setup},
    world::{Action, Heard, World},
};

/// How many ways are gone when nobody says otherwise.
const CASES: u32 = 40;

/// Which ways are gone when nobody says otherwise.
const SEED: u64 = 1;

/// The longest way.
const STEPS: usize = 60;

/// What can stand in a history so far.
const KINDS: [EventKind; 6] = [
    EventKind::Attempt,
    EventKind::Takeover,
    EventKind::Canceled,
    EventKind::Expired,
    EventKind::LateOutcome,
    EventKind::GaveUp,
];

/// Where the ways have led.
#[derive(Default)]
struct Reached {
    steps: usize,
    at_once: usize,
    statuses: BTreeSet<Status>,
    kinds: BTreeSet<&'static str>,
}

impl Reached {
    fn note(&mut self, world: &World, at_once: bool) {
        self.steps += 1;
        self.at_once += usize::from(at_once);
        self.statuses.extend(world.record.status());
        self.kinds.extend(world.record.history.iter().map(|line| line.kind.as_str()));
    }
}

#[test]
fn model_and_postgres_go_the_same_ways() {
    let cases = setting("POSTRIDER_MODEL_CASES");
    let seed = setting("POSTRIDER_MODEL_SEED").unwrap_or_else(|| if cases.is_some() { rand::random() } else { SEED });
    let cases = cases.unwrap_or(CASES);
    let config = Config { cases, max_shrink_time: 60_000, ..Config::default() };
    match go(&mut Ground::new(), config, seed, None) {
        Ok(reached) => {
            eprintln!("seed {seed}: {} steps, {} of them two at once", reached.steps, reached.at_once);
            if cases >= CASES {
                assert_eq!(reached.statuses, Status::ALL.into(), "the ways lead everywhere");
                assert_eq!(reached.kinds, KINDS.map(EventKind::as_str).into(), "the ways lead everywhere");
            }
        }
        Err(why) => panic!("POSTRIDER_MODEL_SEED={seed}: {why}"),
    }
}

#[test]
fn a_rule_that_postgres_does_not_share_is_noticed() {
    let mut ground = Ground::new();
    for rule in [
        Broken::SettleWithoutFence,
        Broken::HandOverWithoutFence,
        Broken::TakeoverWithoutEvent,
        Broken::UnknownIsForgottenOnExpiry,
    ] {
        let config = Config { cases: 1000, max_shrink_iters: 0, ..Config::default() };
        assert!(go(&mut ground, config, SEED, Some(rule)).is_err(), "{rule:?} is not noticed");
    }
}

/// What ways are gone on.
struct Ground {
    runtime: Runtime,
    processes: Processes,
}

impl Ground {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let processes = runtime.block_on(Processes::start());
        Self { runtime, processes }
    }
}

/// Goes as many ways as the settings say, and tells where they have led; or why the shortest that fails does.
fn go(ground: &mut Ground, config: Config, seed: u64, broken: Option<Broken>) -> Result<Reached, String> {
    let Ground { runtime, processes } = ground;
    let reached = RefCell::new(Reached::default());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { failure_persistence: None, ..config };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(&(setups(), vec(dice(), 1..STEPS)), |(setup, dice)| {
        let mut walk = Walk::new(processes, Setup { broken, ..setup });
        let walked = runtime.block_on(walk.go(&dice, &mut reached.borrow_mut()));
        walked.map_err(|why| TestCaseError::fail(format!("{why}\nafter {:#?}\nof {setup:?}", walk.way)))
    });
    match result {
        Ok(()) => Ok(reached.into_inner()),
        Err(TestError::Fail(why, _) | TestError::Abort(why)) => Err(why.to_string()),
    }
}

fn setting<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}

/// One way.
struct Walk<'a> {
    processes: &'a Processes,
    setup: Setup,
    /// What was done with the present message: an action, or two at once.
    way: Vec<(Action, Option<Action>)>,
}

impl<'a> Walk<'a> {
    fn new(processes: &'a Processes, setup: Setup) -> Self {
        Self { processes, setup, way: Vec::new() }
    }

    /// Goes on for as long as there are dice, with one message after the other.
    async fn go(&mut self, dice: &[Dice], reached: &mut Reached) -> Result<(), String> {
        let mut dice = dice.iter();
        while !dice.as_slice().is_empty() {
            self.way.clear();
            let mut driver = self.processes.accept(&self.setup).await;
            let mut world = World::accepted(&self.setup);
            same(&driver.look(world.now).await, &world)?;
            for dice in &mut dice {
                let Some((first, second)) = choose(&self.setup, &world, *dice) else { break };
                self.way.push((first, second));
                world = match second {
                    None => step(&mut driver, &self.setup, &world, first).await?,
                    Some(second) => step_at_once(&mut driver, &self.setup, &world, [first, second]).await?,
                };
                reached.note(&world, second.is_some());
                // What is known to go wrong goes wrong in Postgres too.
                if let Some(flaw) = flaw(&self.setup, &world) {
                    return Err(flaw);
                }
            }
        }
        Ok(())
    }
}

/// One action.
async fn step(driver: &mut OutboxDriver<'_>, setup: &Setup, world: &World, action: Action) -> Result<World, String> {
    let (after, expected) = world.after(setup, action);
    let reply = driver.call(world, action).await.map_err(|error| error.to_string())?;
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
    let (one, other) =
        tokio::try_join!(driver.call(world, first), driver.call(world, second)).map_err(|error| error.to_string())?;
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
