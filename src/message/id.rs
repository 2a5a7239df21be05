//! Message ids: UUIDv7, so that an id tells its day and ids of one day lie together.
//!
//! Owns their order and their time; to which day's table an id leads is the outbox's.

use std::{fmt, str::FromStr};

use time::OffsetDateTime;
use uuid::{NoContext, Timestamp, Uuid};

/// The id of a message, a UUIDv7 (RFC 9562, section 5.7) of the time it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId(Uuid);

/// A text that is not a message id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MessageIdError {
    /// Not a UUID at all.
    #[error("not a UUID")]
    NotAUuid,
    /// A UUID of another version.
    #[error("not a UUID of version 7")]
    NotVersion7,
}

impl MessageId {
    /// A new id of that time. The time is the database's: the id's day decides in which partition the message lies.
    pub fn new_at(time: OffsetDateTime) -> Self {
        let seconds = u64::try_from(time.unix_timestamp()).unwrap_or(0);
        Self(Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, time.nanosecond())))
    }

    /// The id as a UUID; an error if it is not of version 7.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, MessageIdError> {
        if uuid.get_version_num() == 7 { Ok(Self(uuid)) } else { Err(MessageIdError::NotVersion7) }
    }

    /// The UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }

    /// The time in the id, to the millisecond.
    pub fn time(self) -> OffsetDateTime {
        let millis = self.0.as_u128() >> 80;
        i128::try_from(millis)
            .ok()
            .and_then(|ms| OffsetDateTime::from_unix_timestamp_nanos(ms * 1_000_000).ok())
            .unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl FromStr for MessageId {
    type Err = MessageIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map_err(|_| MessageIdError::NotAUuid).and_then(Self::from_uuid)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::*;

    #[test]
    fn an_id_tells_its_time_to_the_millisecond() {
        let time = datetime!(2026-12-01 11:38:29.123456789 UTC);
        assert_eq!(MessageId::new_at(time).time(), datetime!(2026-12-01 11:38:29.123 UTC));
    }

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = MessageId::new_at(OffsetDateTime::now_utc());
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!("nonsense".parse::<MessageId>(), Err(MessageIdError::NotAUuid));
        assert_eq!(Uuid::nil().to_string().parse::<MessageId>(), Err(MessageIdError::NotVersion7));
    }
}
