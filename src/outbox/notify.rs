//! What processes tell each other over NOTIFY: in which lanes something was accepted, that one of them came or went, and
//! that something is known of a provider.
//!
//! Owns the words and the connection that listens. What is lost is found by those who look for themselves: nothing
//! depends on it.

use sqlx::postgres::PgListener;
use time::{Duration, OffsetDateTime};

use super::{Heard, LaneId, Outbox, OutboxError, Wake, wake::ForOthers};

/// Of more lanes than this nobody is told one by one. A payload has 8000 bytes at most (PostgreSQL documentation,
/// NOTIFY), and a lane takes 25.
const LANES_AT_MOST: usize = 200;

/// The word for: look for yourself.
const LOOK_ANEW: &str = "*";

/// The words for: count who is there, and read what is known of providers. To an older version each means to look anew.
const COMPANY: &str = "company";
const PROVIDERS: &str = "providers";

impl Outbox {
    /// Tells the dispatchers of other processes what this one has to tell them, in a statement of its own: within that of
    /// an accept it would make every commit wait for the one before. Nothing, if there is nothing to tell.
    pub async fn tell_others(&self, wake: &Wake) -> Result<(), OutboxError> {
        let Some(words) = words(&wake.take_for_others()) else { return Ok(()) };
        // Not made again where its answer was lost: it would come too late.
        sqlx::query!("select pg_notify($1, $2)", &*self.schema, words).fetch_one(&self.hot).await?;
        Ok(())
    }

    /// Begins to listen to other processes; `None` behind a pooler that lends connections for a transaction only.
    pub async fn listener(&self) -> Result<Option<Listener>, OutboxError> {
        if !self.database.keeps_sessions() {
            return Ok(None);
        }
        let mut listener = self.database.listener().await?;
        listener.listen(&self.schema).await?;
        Ok(Some(Listener(listener)))
    }
}

/// A connection that listens.
pub struct Listener(PgListener);

impl Listener {
    /// Passes on what others tell, until the connection is lost. While it does, the bell knows that it is told.
    pub async fn hear(mut self, wake: &Wake) -> Result<(), OutboxError> {
        let _listening = wake.listening();
        // What was said before nobody has heard.
        wake.look_anew();
        wake.hear(Heard { company: true, ..Heard::default() });
        while let Some(notification) = self.0.try_recv().await? {
            take_in(notification.payload(), wake);
        }
        Ok(())
    }
}

/// What was due so long ago is told with its time, so that others look back for it.
const LATE: Duration = Duration::milliseconds(500);

/// What is told, in words: `7` for something due now, `7@1764590400000` for something due at that many milliseconds
/// since 1970 (later, or long ago), separated by commas.
fn words(for_others: &ForOthers) -> Option<String> {
    let Heard { company, providers } = for_others.heard;
    let mut words: Vec<String> = [(COMPANY, company), (PROVIDERS, providers)]
        .into_iter()
        .filter(|(_, is_so)| *is_so)
        .map(|(w, _)| w.to_owned())
        .collect();
    let now = OffsetDateTime::now_utc();
    let word = |(lane, due_at): (&LaneId, &OffsetDateTime)| match due_at {
        due_at if *due_at <= now && now - *due_at < LATE => lane.to_string(),
        due_at => format!("{lane}@{}", due_at.unix_timestamp_nanos() / 1_000_000),
    };
    match for_others.look_anew || for_others.lanes.len() > LANES_AT_MOST {
        true => words.push(LOOK_ANEW.to_owned()),
        false => words.extend(for_others.lanes.iter().map(word)),
    }
    (!words.is_empty()).then(|| words.join(","))
}

/// Whoever does not understand a word, since a newer version has said it, looks for himself.
fn take_in(words: &str, wake: &Wake) {
    for word in words.split(',') {
        match (word, read(word)) {
            (COMPANY, _) => wake.hear(Heard { company: true, ..Heard::default() }),
            (PROVIDERS, _) => wake.hear(Heard { providers: true, ..Heard::default() }),
            (_, Some((lane, due_at))) => wake.expect(lane, due_at),
            (_, None) => wake.look_anew(),
        }
    }
}

fn read(word: &str) -> Option<(LaneId, OffsetDateTime)> {
    let (lane, due_at) = match word.split_once('@') {
        Some((lane, ms)) => (lane, OffsetDateTime::UNIX_EPOCH.checked_add(Duration::milliseconds(ms.parse().ok()?))?),
        None => (word, OffsetDateTime::UNIX_EPOCH),
    };
    Some((LaneId::new(lane.parse().ok()?), due_at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{message::Clock, outbox::News};

    fn told(accepted: &[(i32, OffsetDateTime)]) -> (Option<String>, News) {
        let (here, there) = (Wake::new(Clock::default()), Wake::new(Clock::default()));
        for (lane, due_at) in accepted {
            here.accepted(LaneId::new(*lane), *due_at);
        }
        let words = words(&here.take_for_others());
        if let Some(words) = &words {
            take_in(words, &there);
        }
        (words, there.take())
    }

    #[test]
    fn what_one_accepted_the_other_expects() {
        let now = OffsetDateTime::now_utc();
        let later = (now + Duration::hours(1)).truncate_to_millisecond();
        let (words, news) = told(&[(7, now), (8, later), (7, now), (9, later), (9, later + Duration::HOUR)]);
        let ms = later.unix_timestamp_nanos() / 1_000_000;
        assert_eq!(words, Some(format!("7,8@{ms},9@{ms}")));
        assert_eq!(news.now.into_keys().collect::<Vec<_>>(), [LaneId::new(7)]);
        assert_eq!(news.later, [(later, LaneId::new(8)), (later, LaneId::new(9))].into());
        assert!(!news.look_anew);
        assert_eq!(told(&[]), (None, News::default()));
    }

    #[tokio::test]
    async fn what_is_not_about_messages_is_told_beside_them() {
        let (here, there) = (Wake::new(Clock::default()), Wake::new(Clock::default()));
        here.accepted(LaneId::new(7), OffsetDateTime::now_utc());
        here.company_changed();
        here.providers_changed();
        let words = words(&here.take_for_others()).unwrap_or_default();
        assert_eq!(words, "company,providers,7");
        take_in(&words, &there);
        let news = there.take();
        assert!(!news.look_anew && news.now.len() == 1);
        assert_eq!(there.heard().await, Heard { company: true, providers: true });
        assert_eq!(here.heard().await, Heard { company: false, providers: true }, "what is set here counts here");
    }

    #[test]
    fn of_too_many_lanes_and_of_what_nobody_understands_everything_is_looked_up() {
        let now = OffsetDateTime::now_utc();
        let many: Vec<_> = (0..=200).map(|lane| (lane, now)).collect();
        let (words, news) = told(&many);
        assert_eq!(words.as_deref(), Some("*"));
        assert!(news.look_anew && news.now.is_empty());
        let longest: Vec<_> = (0..200).map(|n| (i32::MAX - n, now + Duration::HOUR)).collect();
        assert!(told(&longest).0.is_some_and(|words| words.len() < 8000));
        for strange in ["", "x", "7@", "7@x", "!7", "99999999999", "7@99999999999999999"] {
            let wake = Wake::new(Clock::default());
            take_in(strange, &wake);
            assert!(wake.take().look_anew, "{strange}");
        }
    }
}
