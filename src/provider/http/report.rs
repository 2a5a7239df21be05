//! What the body of an answer says, by the gateway's contract (`deploy/gateway/openapi.yaml`).
//!
//! Owns the reading of that JSON, leniently: a field of an unexpected type is taken for missing, and the commonest ways
//! of saying "error" that are not in the contract are understood. Judges nothing by the status.

use serde_json::Value;

use crate::{
    delivery::Class,
    provider::web::{id_of, plain_code},
};

/// What a body says.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Report {
    /// The gateway's own id of the message.
    pub(super) id: Option<String>,
    /// What it says went wrong with the message as a whole.
    pub(super) refusal: Option<Refusal>,
    /// What became of single recipients.
    pub(super) fates: Vec<Fate>,
}

/// A message that was not taken, as the body says it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Refusal {
    /// The class, where the body names one.
    pub(super) class: Option<Class>,
    /// Whether it is about the sender's domain only.
    pub(super) about_sender_domain: bool,
    /// The gateway's own code.
    pub(super) code: Option<String>,
    /// The gateway's words.
    pub(super) detail: String,
}

/// What became of one recipient.
#[derive(Debug, PartialEq)]
pub(super) struct Fate {
    /// Which, by its place in the message.
    pub(super) index: Option<u64>,
    /// Which, by its address.
    pub(super) address: Option<String>,
    /// What it means for that recipient.
    pub(super) class: Class,
    /// The gateway's own code.
    pub(super) code: Option<String>,
    /// The gateway's words.
    pub(super) detail: String,
}

impl Report {
    /// Reads a body; `None` if it is no JSON object.
    pub(super) fn read(body: &[u8]) -> Option<Self> {
        let json: Value = serde_json::from_slice(body).ok()?;
        json.is_object().then(|| Self {
            id: id_of(&json["id"]),
            refusal: refusal(&json),
            fates: json["recipients"].as_array().into_iter().flatten().filter_map(fate).collect(),
        })
    }
}

/// What says that the message was not taken: `error` by the contract, or `status` with a word that says so; beside
/// those `errors` and `success: false`, which gateways write that do not know the contract.
fn refusal(json: &Value) -> Option<Refusal> {
    let error = [&json["error"], &json["errors"]].into_iter().find(|value| says_something(value));
    let (says_so, by_status) = status_word(json["status"].as_str().unwrap_or_default());
    if error.is_none() && !says_so && json["success"] != Value::Bool(false) {
        return None;
    }
    let error = match error {
        Some(Value::Array(errors)) => errors.first().unwrap_or(&Value::Null),
        Some(error) => error,
        None => &Value::Null,
    };
    Some(Refusal {
        class: error["class"].as_str().and_then(class_of).or(by_status),
        about_sender_domain: error["scope"] == "sender_domain",
        code: plain_code(&error["code"]),
        detail: words(error).or_else(|| words(json)).unwrap_or_default().to_owned(),
    })
}

fn says_something(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::Bool(true) => true,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Whether a `status` says that the message was not taken, and the class it names.
fn status_word(word: &str) -> (bool, Option<Class>) {
    match word.to_ascii_lowercase().as_str() {
        "rejected" => (true, Some(Class::MessageRejected)),
        "deferred" => (true, Some(Class::Deferred)),
        "error" | "failed" | "failure" => (true, None),
        _ => (false, None),
    }
}

/// The class of `error.class`. An error that calls itself accepted names none.
fn class_of(word: &str) -> Option<Class> {
    Class::parse(&word.to_ascii_uppercase()).filter(|&class| class != Class::Accepted)
}

fn words(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| ["detail", "message", "title"].iter().find_map(|field| value[field].as_str()))
}

fn fate(json: &Value) -> Option<Fate> {
    json.is_object().then(|| Fate {
        index: json["index"].as_u64(),
        address: json["address"].as_str().map(str::to_owned),
        class: match json["status"].as_str().map(str::to_ascii_lowercase).as_deref() {
            Some("accepted") => Class::Accepted,
            Some("rejected") => Class::RecipientRejected,
            Some("deferred") => Class::Deferred,
            // A word that is not in the contract: whether the recipient was taken is not known.
            _ => Class::OutcomeUnknown,
        },
        code: plain_code(&json["code"]),
        detail: words(json).unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refusal_of(body: &str) -> Option<(Option<Class>, Option<String>, String)> {
        let refusal = Report::read(body.as_bytes()).expect("a JSON object").refusal?;
        Some((refusal.class, refusal.code, refusal.detail))
    }

    #[test]
    fn only_a_json_object_is_a_report() {
        for body in ["", "OK", "[]", "\"accepted\"", "{", "null", "{\"id\":1} trailing"] {
            assert_eq!(Report::read(body.as_bytes()), None, "{body}");
        }
    }

    #[test]
    fn an_id_is_text_or_a_number_without_control_characters_and_bounded() {
        let table = [
            (r#"{"id":" abc "}"#, Some("abc")),
            (r#"{"id":42}"#, Some("42")),
            (r#"{"id":"a\r\nb"}"#, Some("ab")),
            (r#"{"id":""}"#, None),
            (r#"{"id":{}}"#, None),
            (r#"{}"#, None),
        ];
        for (body, id) in table {
            assert_eq!(Report::read(body.as_bytes()).unwrap().id.as_deref(), id, "{body}");
        }
        let long = format!(r#"{{"id":"{}"}}"#, "я".repeat(1000));
        assert_eq!(Report::read(long.as_bytes()).unwrap().id.unwrap().chars().count(), 255);
    }

    #[test]
    fn every_way_to_say_error_is_understood() {
        let rejected = Some(Class::MessageRejected);
        let quota = Some(Class::QuotaUsedUp);
        let table = [
            (r#"{"status":"error"}"#, None, None, ""),
            (r#"{"status":"Failed","message":"why"}"#, None, None, "why"),
            (r#"{"status":"rejected","detail":"why"}"#, rejected, None, "why"),
            (r#"{"status":"deferred"}"#, Some(Class::Deferred), None, ""),
            (r#"{"success":false}"#, None, None, ""),
            (r#"{"error":true}"#, None, None, ""),
            (r#"{"error":"why"}"#, None, None, "why"),
            (r#"{"errors":["why","more"]}"#, None, None, "why"),
            (r#"{"errors":[{"message":"why","code":7}]}"#, None, Some("7"), "why"),
            (r#"{"error":{"class":"quota_used_up","code":"Q-1","detail":"why"}}"#, quota, Some("Q-1"), "why"),
            (r#"{"error":{"class":"no_such_class"}}"#, None, None, ""),
            (r#"{"error":{"class":"accepted"}}"#, None, None, ""),
            (r#"{"error":{"code":"write to <anna@example.com>"}}"#, None, None, ""),
            (r#"{"status":500,"error":"Internal Server Error","path":"/"}"#, None, None, "Internal Server Error"),
        ];
        for (body, class, code, detail) in table {
            let expected = (class, code.map(str::to_owned), detail.to_owned());
            assert_eq!(refusal_of(body), Some(expected), "{body}");
        }
    }

    #[test]
    fn what_says_no_error_is_none() {
        let bodies = [
            r#"{"id":"1"}"#,
            r#"{"status":"accepted"}"#,
            r#"{"status":"queued","error":null,"errors":[]}"#,
            r#"{"status":200,"error":false,"success":true}"#,
            r#"{"error":"","errors":{}}"#,
        ];
        for body in bodies {
            assert_eq!(refusal_of(body), None, "{body}");
        }
    }

    #[test]
    fn a_recipient_with_a_word_that_is_not_in_the_contract_is_unknown() {
        let body = br#"{"recipients":[{"index":2,"status":"Rejected","code":"550 5.1.1","detail":"no such user"},
                        {"address":"a@example.com","status":"suppressed"},"nonsense"]}"#;
        let fates = Report::read(body).unwrap().fates;
        assert_eq!(fates.len(), 2);
        assert_eq!((fates[0].index, fates[0].class), (Some(2), Class::RecipientRejected));
        assert_eq!((fates[0].code.as_deref(), fates[0].detail.as_str()), (Some("550 5.1.1"), "no such user"));
        assert_eq!(fates[1].address.as_deref(), Some("a@example.com"));
        assert_eq!(fates[1].class, Class::OutcomeUnknown);
    }
}
