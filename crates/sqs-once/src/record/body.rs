//! From a message's body to its payload.

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;

use super::Message;

/// The body is not the payload. Delivering it again can't help, so the record is terminal.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum BodyError {
    /// The message has no body.
    #[error("the message has no body")]
    Missing,
    /// The body is not JSON.
    #[error("the body is not JSON: error at line {line} column {column}")]
    NotJson {
        /// Where it stops being JSON, counted from 1.
        line: usize,
        /// Where it stops being JSON, counted from 1.
        column: usize,
    },
    /// The body is JSON of another shape than the payload type.
    #[error("the body does not fit the payload type: {problem} at line {line} column {column}")]
    WrongShape {
        /// What does not fit; never holds a value of the body.
        problem: String,
        /// Where, counted from 1.
        line: usize,
        /// Where, counted from 1.
        column: usize,
    },
}

/// Reads the payload from a JSON body.
///
/// # Errors
/// [`BodyError`], which tells where and what, but never shows a value of the body: it is logged.
pub(crate) fn decode_json<T: DeserializeOwned>(message: &Message) -> Result<T, BodyError> {
    let body = message.body().ok_or(BodyError::Missing)?;
    serde_json::from_str(body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        match error.classify() {
            Category::Data => BodyError::WrongShape {
                problem: without_values(&error.to_string()),
                line,
                column,
            },
            Category::Io | Category::Syntax | Category::Eof => BodyError::NotJson { line, column },
        }
    })
}

/// serde's messages quote the value found, and a payload type's own may hold it anywhere. What stays
/// is what serde itself says without the value: the kind of value, and what was expected; or the name
/// of one of the payload type's fields.
fn without_values(message: &str) -> String {
    const KINDS: [&str; 17] = [
        "boolean",
        "integer",
        "floating point",
        "character",
        "string",
        "byte array",
        "unit value",
        "Option value",
        "newtype struct",
        "sequence",
        "map",
        "enum",
        "unit variant",
        "newtype variant",
        "tuple variant",
        "struct variant",
        "null",
    ];
    let message = message.split(" at line ").next().unwrap_or_default();
    for start in ["missing field", "duplicate field"] {
        let field = message.strip_prefix(start).and_then(|rest| {
            let name = rest.strip_prefix(" `")?.strip_suffix('`')?;
            let is_name = name
                .chars()
                .all(|c| c.is_alphanumeric() || c == '_' || c == '-');
            is_name.then_some(name)
        });
        if let Some(field) = field {
            return format!("{start} `{field}`");
        }
    }
    for start in ["invalid type", "invalid value"] {
        let Some(rest) = message
            .strip_prefix(start)
            .and_then(|rest| rest.strip_prefix(": "))
        else {
            continue;
        };
        let kind = rest
            .split(['`', '"', ','])
            .next()
            .unwrap_or_default()
            .trim();
        if let (true, Some((_, expected))) =
            (KINDS.contains(&kind), rest.rsplit_once(", expected "))
        {
            return format!("{start}: {kind}, expected {expected}");
        }
    }
    match message.split(" `").next() {
        Some(what @ ("unknown field" | "unknown variant")) => what.to_owned(),
        _ => "the payload type refuses a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use aws_lambda_events::event::sqs::SqsMessage;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[serde(rename = "total")]
        _total: u64,
    }

    fn problem(body: &str) -> String {
        problem_of::<Order>(body)
    }

    fn problem_of<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
        let mut sqs = SqsMessage::default();
        sqs.message_id = Some("m".to_owned());
        sqs.body = Some(body.to_owned());
        let message = Message::new(sqs).unwrap();
        decode_json::<T>(&message).unwrap_err().to_string()
    }

    #[test]
    fn a_reason_tells_what_does_not_fit_and_never_shows_a_value() {
        assert_eq!(
            problem(r#"{"total": "4111 1111, expected nothing"}"#),
            "the body does not fit the payload type: invalid type: string, expected u64 at line 1 column 39"
        );
        assert_eq!(
            problem("{}"),
            "the body does not fit the payload type: missing field `total` at line 1 column 2"
        );
        assert_eq!(
            problem(r#"{"secret": 1}"#),
            "the body does not fit the payload type: unknown field at line 1 column 9"
        );
        assert_eq!(
            problem("secret"),
            "the body is not JSON: error at line 1 column 1"
        );
    }
    /// A payload type with words of its own about a value.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Card;

    impl TryFrom<String> for Card {
        type Error = String;

        fn try_from(card: String) -> Result<Self, String> {
            Err(card)
        }
    }

    #[test]
    fn a_payload_types_own_words_are_left_out_however_they_look() {
        for words in [
            "invalid card number 4111 1111",
            "invalid value: 4111 1111, expected a card",
            "missing field `x` in 4111 1111",
            "unknown variant 4111 1111",
            "4111 1111",
        ] {
            let problem = problem_of::<Card>(&serde_json::to_string(words).unwrap());
            assert!(!problem.contains("4111"), "{problem}");
        }
    }
}
