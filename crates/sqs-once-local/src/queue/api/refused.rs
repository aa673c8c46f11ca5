//! The error response to a refused request, in SQS's format.

use crate::queue::QueueError;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Refused {
    code: &'static str,
    said: String,
    status: StatusCode,
}

impl Refused {
    pub(super) fn new(code: &'static str, said: impl Into<String>) -> Self {
        Self {
            code,
            said: said.into(),
            status: StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn missing(parameter: &str) -> Self {
        let said = format!("The request must contain the parameter {parameter}.");
        Self::new("MissingParameter", said)
    }

    pub(super) fn value(
        parameter: &str,
        value: &dyn std::fmt::Display,
        reason: impl std::fmt::Display,
    ) -> Self {
        let said = format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}.");
        Self::new("InvalidParameterValue", said)
    }

    /// The entry of a batch's answer that reports this error.
    pub(super) fn entry(&self, id: &str) -> Value {
        json!({"Id": id, "Code": self.query_code(), "Message": self.said, "SenderFault": true})
    }

    /// The error code of the older query protocol, which SDKs still use.
    fn query_code(&self) -> String {
        let code = match self.code {
            "QueueDoesNotExist" => "NonExistentQueue",
            "BatchEntryIdsNotDistinct"
            | "BatchRequestTooLong"
            | "EmptyBatchRequest"
            | "InvalidBatchEntryId"
            | "MessageNotInflight"
            | "TooManyEntriesInBatchRequest"
            | "UnsupportedOperation" => self.code,
            _ => return self.code.to_owned(),
        };
        format!("AWS.SimpleQueueService.{code}")
    }
}

impl From<QueueError> for Refused {
    fn from(error: QueueError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let header = HeaderName::from_static("x-amzn-query-error");
        let query_error = format!("{};Sender", self.query_code());
        let kind = format!("com.amazonaws.sqs#{}", self.code);
        let body = json!({"__type": kind, "message": self.said}).to_string();
        (self.status, [(header, query_error)], body).into_response()
    }
}
