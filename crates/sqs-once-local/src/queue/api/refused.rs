//! The error response to a refused request, in SQS's format.

use crate::queue::error::QueueError;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

#[derive(Debug)]
pub(super) struct Refused {
    code: &'static str,
    pub(super) message: String,
    status: StatusCode,
}

impl Refused {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            status: StatusCode::BAD_REQUEST,
        }
    }

    pub(super) fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    pub(super) fn missing(parameter: &str) -> Self {
        let text = format!("The request must contain the parameter {parameter}.");
        Self::new("MissingParameter", text)
    }

    pub(super) fn value(
        parameter: &str,
        value: &dyn std::fmt::Display,
        reason: impl std::fmt::Display,
    ) -> Self {
        let text = format!("Value {value} for parameter {parameter} is invalid. Reason: {reason}.");
        Self::new("InvalidParameterValue", text)
    }

    /// The entry of a batch's answer that reports this error.
    pub(super) fn entry(&self, id: &str) -> Value {
        json!({"Id": id, "Code": self.query_code(), "Message": self.message, "SenderFault": true})
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
        let body = json!({"__type": kind, "message": self.message}).to_string();
        (self.status, [(header, query_error)], body).into_response()
    }
}
