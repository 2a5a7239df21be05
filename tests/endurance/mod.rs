//! Under load, whatever happens to processes and to the database: nothing is lost, and every duplicate is on record.
//!
//! Each test has a short form, and a long one for `POSTRIDER_TEST_ENDURANCE=long` (`make endurance`), which prints what
//! it counted.

mod fleet;
mod kills;
mod ledger;
mod load;
mod outages;
mod pauses;

use std::env;

/// How long a test goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Short,
    Long,
}

impl Form {
    /// The form that was asked for.
    fn chosen() -> Self {
        match env::var("POSTRIDER_TEST_ENDURANCE").as_deref() {
            Ok("long") => Self::Long,
            Ok(other) => panic!("POSTRIDER_TEST_ENDURANCE is `long` or not set, and not {other:?}"),
            Err(_) => Self::Short,
        }
    }

    /// The figure of this form.
    fn of<T>(self, short: T, long: T) -> T {
        match self {
            Self::Short => short,
            Self::Long => long,
        }
    }

    /// Says what was counted, where somebody watches.
    fn report(self, what: &str, counted: &impl std::fmt::Display) {
        if self == Self::Long {
            eprintln!("{what}: {counted}");
        }
    }
}
