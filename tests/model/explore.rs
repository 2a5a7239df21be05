//! Goes through every state of a model, breadth first, and says by which shortest way a broken property is reached.
//!
//! Owns the search; knows nothing of messages. Written here and not taken from `stateright`, which was looked at: its
//! properties are `always`, `sometimes` and `eventually`, but "from every state there is a way to an end" is none of
//! these (it asks for the edges backwards), nor are properties of a step (what a stale write-back changes); and it brings
//! 60 crates, a web server among them, for 12 seconds of two cores in every cold build.

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt::Debug,
    hash::Hash,
};

/// What is explored.
pub trait Model {
    type State: Clone + Debug + Eq + Hash;
    type Action: Copy + Debug;

    fn initial(&self) -> Vec<Self::State>;

    /// What can happen in a state.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;

    /// What it leads to.
    fn after(&self, state: &Self::State, action: Self::Action) -> Self::State;

    /// The same state without what no action and no property depends on.
    fn essence(&self, state: Self::State) -> Self::State {
        state
    }

    /// What is wrong with a state, if anything is.
    fn flaw(&self, state: &Self::State) -> Option<String>;

    /// What is wrong with a step, if anything is.
    fn flaw_of_step(&self, before: &Self::State, action: Self::Action, after: &Self::State) -> Option<String>;

    /// Whether everything has come to its end.
    fn is_end(&self, state: &Self::State) -> bool;

    /// Whether the action counts as a way out: what happens by itself, and neither by a fault nor by a person.
    fn is_way_out(&self, action: Self::Action) -> bool;
}

/// How large the model turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub states: usize,
    pub steps: usize,
    pub ends: usize,
    /// The length of the longest shortest way to a state.
    pub depth: usize,
}

impl std::fmt::Display for Extent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Extent { states, steps, ends, depth } = self;
        write!(f, "{states} states, {steps} steps, {ends} ends, depth {depth}")
    }
}

/// A property that does not hold, and the shortest way there.
#[derive(Clone, Debug)]
pub struct Counterexample<M: Model> {
    pub flaw: String,
    pub way: Vec<M::Action>,
    pub state: M::State,
}

/// A state as it was found.
struct Found<M: Model> {
    state: M::State,
    from: Option<(usize, M::Action)>,
    depth: usize,
    /// The states that lead here by what happens by itself.
    led_from: Vec<usize>,
}

struct Search<'a, M: Model> {
    model: &'a M,
    found: Vec<Found<M>>,
    numbers: HashMap<M::State, usize>,
    steps: usize,
}

/// Goes through every state that can be reached.
pub fn explore<M: Model>(model: &M) -> Result<Extent, Box<Counterexample<M>>> {
    let mut search = Search { model, found: Vec::new(), numbers: HashMap::new(), steps: 0 };
    for state in model.initial() {
        search.meet(state, None)?;
    }
    let mut nth = 0;
    while nth < search.found.len() {
        search.go_on_from(nth)?;
        nth += 1;
    }
    search.check_ways_out()?;
    Ok(Extent {
        states: search.found.len(),
        steps: search.steps,
        ends: search.found.iter().filter(|found| model.is_end(&found.state)).count(),
        depth: search.found.last().map_or(0, |found| found.depth),
    })
}

impl<M: Model> Search<'_, M> {
    fn go_on_from(&mut self, nth: usize) -> Result<(), Box<Counterexample<M>>> {
        let before = self.found[nth].state.clone();
        for action in self.model.actions(&before) {
            self.steps += 1;
            let after = self.model.after(&before, action);
            if let Some(flaw) = self.model.flaw_of_step(&before, action, &after) {
                return Err(self.counterexample(flaw, Some((nth, action)), after));
            }
            let number = self.meet(after, Some((nth, action)))?;
            if self.model.is_way_out(action) && number != nth {
                self.found[number].led_from.push(nth);
            }
        }
        Ok(())
    }

    /// The number of a state, which is looked at if it is new.
    fn meet(&mut self, state: M::State, from: Option<(usize, M::Action)>) -> Result<usize, Box<Counterexample<M>>> {
        if let Some(flaw) = self.model.flaw(&state) {
            return Err(self.counterexample(flaw, from, state));
        }
        let state = self.model.essence(state);
        let number = self.found.len();
        match self.numbers.entry(state) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => {
                let depth = from.map_or(0, |(nth, _)| self.found[nth].depth + 1);
                self.found.push(Found { state: new.key().clone(), from, depth, led_from: Vec::new() });
                new.insert(number);
                Ok(number)
            }
        }
    }

    /// From every state there is a way to an end: found by going back from the ends.
    fn check_ways_out(&self) -> Result<(), Box<Counterexample<M>>> {
        let mut has_way: Vec<bool> = self.found.iter().map(|found| self.model.is_end(&found.state)).collect();
        let mut open: Vec<usize> = (0..has_way.len()).filter(|&nth| has_way[nth]).collect();
        while let Some(nth) = open.pop() {
            for &from in &self.found[nth].led_from {
                if !std::mem::replace(&mut has_way[from], true) {
                    open.push(from);
                }
            }
        }
        match has_way.iter().position(|has| !has) {
            None => Ok(()),
            Some(nth) => {
                let found = &self.found[nth];
                Err(self.counterexample("there is no way to an end".into(), found.from, found.state.clone()))
            }
        }
    }

    fn counterexample(
        &self,
        flaw: String,
        mut from: Option<(usize, M::Action)>,
        state: M::State,
    ) -> Box<Counterexample<M>> {
        let mut way = Vec::new();
        while let Some((nth, action)) = from {
            way.push(action);
            from = self.found[nth].from;
        }
        way.reverse();
        Box::new(Counterexample { flaw, way, state })
    }
}

impl<M: Model> std::fmt::Display for Counterexample<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}, after {} steps:", self.flaw, self.way.len())?;
        for action in &self.way {
            writeln!(f, "  {action:?}")?;
        }
        write!(f, "{:?}", self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A walk along whole numbers, by one or by two, up to a wall.
    struct Walk {
        wall: u8,
        pit: Option<u8>,
        forbidden: Option<u8>,
    }

    impl Model for Walk {
        type State = u8;
        type Action = u8;

        fn initial(&self) -> Vec<u8> {
            vec![0]
        }

        fn actions(&self, state: &u8) -> Vec<u8> {
            if Some(*state) == self.pit { Vec::new() } else { (1..=2).filter(|by| state + by <= self.wall).collect() }
        }

        fn after(&self, state: &u8, action: u8) -> u8 {
            state + action
        }

        fn flaw(&self, state: &u8) -> Option<String> {
            (Some(*state) == self.forbidden).then(|| "forbidden".into())
        }

        fn flaw_of_step(&self, before: &u8, _: u8, after: &u8) -> Option<String> {
            (after < before).then(|| "backwards".into())
        }

        fn is_end(&self, state: &u8) -> bool {
            *state == self.wall
        }

        fn is_way_out(&self, _: u8) -> bool {
            true
        }
    }

    #[test]
    fn every_state_is_seen_once() {
        let extent = explore(&Walk { wall: 10, pit: None, forbidden: None }).map_err(|found| found.flaw);
        assert_eq!(extent, Ok(Extent { states: 11, steps: 19, ends: 1, depth: 5 }));
    }

    #[test]
    fn the_way_to_a_flaw_is_the_shortest() {
        let found = explore(&Walk { wall: 10, pit: None, forbidden: Some(7) }).expect_err("it is forbidden");
        assert_eq!((&*found.flaw, found.way.len(), found.state), ("forbidden", 4, 7));
    }

    #[test]
    fn a_state_without_an_exit_is_found() {
        let found = explore(&Walk { wall: 10, pit: Some(9), forbidden: None }).expect_err("there is a pit");
        assert_eq!((&*found.flaw, found.state), ("there is no way to an end", 9));
    }
}
