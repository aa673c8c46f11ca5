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
/// is the kind of value, the names of the payload type's fields, and what was expected.
fn without_values(message: &str) -> String {
    if message.starts_with("missing field `") || message.starts_with("duplicate field `") {
        return message
            .split(" at line ")
            .next()
            .unwrap_or(message)
            .to_owned();
    }
    let is_serdes_own = ["invalid ", "unknown "]
        .iter()
        .any(|start| message.starts_with(start));
    if !is_serdes_own {
        return "the payload type refuses a value".to_owned();
    }
    let kind = message
        .split(['`', '"', ','])
        .next()
        .unwrap_or_default()
        .trim();
    let expected = message
        .rsplit_once(", expected ")
        .and_then(|(_, expected)| expected.split(" at line ").next());
    match expected {
        Some(expected) => format!("{kind}, expected {expected}"),
        None => kind.to_owned(),
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
        let mut sqs = SqsMessage::default();
        sqs.message_id = Some("m".to_owned());
        sqs.body = Some(body.to_owned());
        let message = Message::new(sqs).unwrap();
        decode_json::<Order>(&message).unwrap_err().to_string()
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
            "the body does not fit the payload type: unknown field, expected `total` at line 1 column 9"
        );
        assert_eq!(
            problem("secret"),
            "the body is not JSON: error at line 1 column 1"
        );
    }
}
