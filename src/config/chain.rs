//! The chains' settings: in which order providers are asked, and which of them share a place in it.
//!
//! Owns how a chain is written and read; who is asked for a message is [`crate::chain`]'s to say.

use super::{
    source::{Content, Raw, Table},
    value::Value,
};

/// The heaviest that a provider can weigh among those that share its place.
const HEAVIEST: u32 = 1_000_000;

/// The providers of one chain, first those that are asked first.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd)]
pub struct Chain(Vec<Position>);

/// One place in a chain: a provider, or several that share what comes to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Position(Vec<Share>);

/// A provider at its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd)]
pub struct Share {
    /// Its name.
    pub provider: String,
    /// Which part of the messages it gets first, among those that share the place: its weight in the sum of theirs.
    pub weight: u32,
}

impl Chain {
    /// A chain of those places.
    pub fn new(positions: Vec<Position>) -> Self {
        Self(positions)
    }

    /// Its places, in their order.
    pub fn positions(&self) -> &[Position] {
        &self.0
    }

    /// Its providers, in their order.
    pub fn providers(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|position| &position.0).map(|share| share.provider.as_str())
    }
}

/// A chain in which each provider has a place of its own.
impl<S: Into<String>> FromIterator<S> for Chain {
    fn from_iter<I: IntoIterator<Item = S>>(providers: I) -> Self {
        Self(providers.into_iter().map(|provider| Position::new([(provider, 1)])).collect())
    }
}

impl Position {
    /// A place that those providers share by their weights. They have no order but that of their names.
    pub fn new<S: Into<String>>(shares: impl IntoIterator<Item = (S, u32)>) -> Self {
        let share = |(provider, weight): (S, u32)| Share { provider: provider.into(), weight };
        let mut shares: Vec<Share> = shares.into_iter().map(share).collect();
        shares.sort_by(|one, other| one.provider.cmp(&other.provider));
        Self(shares)
    }

    /// Who is at it.
    pub fn shares(&self) -> &[Share] {
        &self.0
    }

    fn read(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::Table(table) => Self::read_shares(table),
            one => String::read(one).map(|provider| Self::new([(provider, 1)])),
        }
    }

    fn read_shares(table: &Table) -> Option<Self> {
        let weight = |content: &Content| match content {
            Content::Value(raw) => u32::read(raw).filter(is_weight),
            Content::Table(_) => None,
        };
        let shares = table.iter().map(|(provider, node)| Some((provider.clone(), weight(&node.content)?)));
        let shares = shares.collect::<Option<Vec<_>>>()?;
        (!shares.is_empty()).then(|| Self::new(shares))
    }

    /// As a variable of the environment has it: `relay`, or `east=3|west=1`.
    fn read_word(word: &str) -> Option<Self> {
        let share = |text: &str| match text.split_once('=') {
            Some((provider, weight)) => {
                Some((provider.trim().to_owned(), weight.trim().parse().ok().filter(is_weight)?))
            }
            None => Some((text.trim().to_owned(), 1)),
        };
        word.split('|').map(share).collect::<Option<Vec<_>>>().map(Self::new)
    }

    fn show(&self) -> String {
        match &self.0[..] {
            [Share { provider, weight: 1 }] => provider.show(),
            shares => {
                let shares: Vec<String> = shares.iter().map(|s| format!("{} = {}", s.provider, s.weight)).collect();
                format!("{{ {} }}", shares.join(", "))
            }
        }
    }
}

fn is_weight(weight: &u32) -> bool {
    (1..=HEAVIEST).contains(weight)
}

impl Value for Chain {
    fn expected() -> String {
        format!(
            "a list of providers, such as [\"a\", \"b\"], where {{ a = 3, b = 1 }} stands for those that share a place \
             by weights from 1 to {HEAVIEST}"
        )
    }

    fn read(raw: &Raw) -> Option<Self> {
        match raw {
            Raw::List(items) => items.iter().map(Position::read).collect::<Option<_>>().map(Self),
            Raw::Word(text) => text.split(',').map(Position::read_word).collect::<Option<_>>().map(Self),
            _ => None,
        }
    }

    fn show(&self) -> String {
        format!("[{}]", self.0.iter().map(Position::show).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Option<Chain> {
        Chain::read(&Raw::Word(text.to_owned()))
    }

    #[test]
    fn a_chain_of_the_environment_is_words_and_weights() {
        let shared = Chain::new(vec![Position::new([("east", 3), ("west", 1)]), Position::new([("backup", 1)])]);
        assert_eq!(word("east=3|west, backup"), Some(shared.clone()));
        assert_eq!(shared.show(), r#"[{ east = 3, west = 1 }, "backup"]"#);
        assert_eq!(word("a,b"), Some(["a", "b"].into_iter().collect()));
        assert_eq!(shared.providers().collect::<Vec<_>>(), ["east", "west", "backup"]);
    }

    #[test]
    fn a_weight_is_a_whole_number_from_one() {
        for text in ["a=0", "a=-1", "a=1.5", "a=", "a=1000001|b"] {
            assert_eq!(word(text), None, "{text}");
        }
    }
}
