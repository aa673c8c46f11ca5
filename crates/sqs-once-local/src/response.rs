//! Interprets a function's answer to an SQS batch as Lambda does.

use serde_json::Value;

/// A function's answer to a batch, as Lambda interprets it for an event source mapping with `ReportBatchItemFailures`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchResponse {
    failures: Vec<String>,
}

impl BatchResponse {
    /// Parses `answer` by Lambda's rules, given the message ids of the batch. Every record succeeded if the answer is
    /// `null` or `{}`, or its `batchItemFailures` is missing or empty. Every record failed if the answer is malformed
    /// or names a message that is not in the batch.
    ///
    /// # Errors
    /// [`ResponseError`] if every record failed: Lambda would retry the whole batch.
    pub fn parse(answer: &[u8], message_ids: &[String]) -> Result<Self, ResponseError> {
        let answer: Value = serde_json::from_slice(answer).map_err(ResponseError::Json)?;
        let list = match &answer {
            Value::Null => &Value::Null,
            Value::Object(fields) => fields.get("batchItemFailures").unwrap_or(&Value::Null),
            _ => return Err(ResponseError::NotAnObject),
        };
        let list = match list {
            Value::Null => &[],
            Value::Array(list) => list.as_slice(),
            _ => return Err(ResponseError::NotAList),
        };
        let failures = list
            .iter()
            .map(|failure| match failure["itemIdentifier"].as_str() {
                None | Some("") => Err(ResponseError::NoIdentifier),
                Some(id) if !message_ids.iter().any(|known| known == id) => {
                    Err(ResponseError::UnknownIdentifier(id.to_owned()))
                }
                Some(id) => Ok(id.to_owned()),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { failures })
    }

    /// The message ids that return to the queue, as the function listed them.
    pub fn failures(&self) -> &[String] {
        &self.failures
    }
}

/// Lambda does not accept the answer as a batch response and would retry the whole batch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// It is not JSON.
    #[error("the answer is not JSON")]
    Json(#[source] serde_json::Error),
    /// It is JSON, but neither an object nor `null`.
    #[error("the answer is not an object such as {{\"batchItemFailures\": []}}")]
    NotAnObject,
    /// `batchItemFailures` is not a list.
    #[error("batchItemFailures is not a list")]
    NotAList,
    /// An entry of `batchItemFailures` names no message.
    #[error(
        "an entry of batchItemFailures has no itemIdentifier, or one that is not a text or is empty"
    )]
    NoIdentifier,
    /// An entry of `batchItemFailures` names a message that is not in the batch.
    #[error("batchItemFailures names the message `{0}`, which is not in the batch")]
    UnknownIdentifier(String),
}
