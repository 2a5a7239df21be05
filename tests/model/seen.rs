//! The rows of Postgres as the model has them.
//!
//! Owns the reading; changes nothing.

use postrider::{
    delivery::{Class, Status},
    message::RecipientIndex,
    outbox,
};
use serde_json::Value;

use super::{
    outbox_driver::{Hold, OutboxDriver},
    record::{Line, Row, Token},
    values::{Provider, Recipients, Tick},
};

/// A message as Postgres has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub row: Option<Row>,
    pub finished: Option<Status>,
    pub history: Vec<Line>,
}

impl OutboxDriver<'_> {
    /// Reads the message as it is.
    pub async fn look(&self, now: Tick) -> Seen {
        let status = self.outbox(0).status(&[self.id], None).await.expect("its status").remove(0);
        let row = self.row(now).await;
        assert_eq!(row.map_or(status.status, |row| row.status), status.status);
        let round = |round: u32| u8::try_from(round).expect("few rounds");
        let line = |event: &outbox::Event| Line {
            kind: event.kind,
            provider: event.provider.as_ref().and_then(|name| Provider::named(name.as_str())),
            class: event.class,
            round: event.round.map(round),
        };
        Seen {
            row,
            finished: Some(status.status).filter(|status| status.is_finished()),
            history: status.events.iter().map(line).collect(),
        }
    }

    async fn row(&self, now: Tick) -> Option<Row> {
        let select = format!(
            "select coalesce(
                (
                    select to_jsonb(pending) || jsonb_build_object(
                        'due_in', extract(epoch from due_at - now()) / 3600,
                        'token', token::text)
                    from pending
                    where id = '{}'
                ),
                'null')",
            self.id
        );
        let row: Value = self.processes.db.scalar(&select).await;
        (!row.is_null()).then(|| self.row_of(&row, now))
    }

    fn row_of(&self, row: &Value, now: Tick) -> Row {
        let text = |name: &str| row[name].as_str();
        let number = |name: &str| u8::try_from(row[name].as_u64().expect("a number")).expect("a small one");
        let flag = |name: &str| row[name].as_bool().expect("a flag");
        let is_set = |name: &str| (!row[name].is_null()).then_some(0);
        let provider = |name: &str| text(name).and_then(Provider::named);
        let holder = |token: &str| {
            let holds = |hold: &Option<Hold>| hold.as_ref().is_some_and(|hold| hold.lease.token.to_string() == token);
            self.holdings.iter().position(holds).map_or(Token::Dead, Token::Of)
        };
        let index = |index: &Value| RecipientIndex(u16::try_from(index.as_u64().expect("an index")).expect("small"));
        let open = row["open_recipients"].as_array().map(|open| open.iter().map(index).collect::<Vec<_>>());
        Row {
            status: text("status").and_then(Status::parse).expect("a status"),
            due_at: row["due_in"].as_f64().map(|steps| (steps + f64::from(now)).round() as Tick),
            token: text("token").map(holder),
            begun_at: is_set("begun_at"),
            unknown_since: is_set("unknown_since"),
            rounds: number("rounds"),
            attempts: number("attempts"),
            last: provider("last_provider").zip(text("last_class").and_then(Class::parse)),
            provider: provider("provider"),
            ask_first: flag("ask_first"),
            accepted_before: flag("accepted_before"),
            cancel_requested: flag("cancel_requested"),
            open: open.map_or(Recipients::first(self.setup.recipients), |open| Recipients::of(&open)),
        }
    }
}
