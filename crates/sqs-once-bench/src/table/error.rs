//! Errors as DynamoDB answers them.

use serde_json::{Value as Json, json};

use super::units::Units;
use super::value::Item;

/// The refusal of a request, or of one statement of a batch.
#[derive(Clone, Debug)]
pub(super) struct ApiError {
    kind: Kind,
    message: String,
    /// The item that refused a conditional write, where that was asked for.
    item: Option<Item>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    ConditionalCheckFailed,
    DuplicateItem,
    Validation,
    UnknownOperation,
}

impl ApiError {
    pub(super) fn validation(message: impl Into<String>) -> Self {
        Self::new(Kind::Validation, message)
    }

    pub(super) fn unknown_operation(name: &str) -> Self {
        Self::new(
            Kind::UnknownOperation,
            format!("no operation {name:?} here"),
        )
    }

    pub(super) fn duplicate() -> Self {
        Self::new(Kind::DuplicateItem, "Duplicate primary key exists in table")
    }

    pub(super) fn condition(item: Option<Item>) -> Self {
        Self {
            item,
            ..Self::new(
                Kind::ConditionalCheckFailed,
                "The conditional request failed",
            )
        }
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            item: None,
        }
    }

    /// What a request that is refused so consumes: a condition was checked, or nothing was done.
    pub(super) fn units(&self) -> Units {
        match self.kind {
            Kind::ConditionalCheckFailed | Kind::DuplicateItem => Units::of_writes(1),
            Kind::Validation | Kind::UnknownOperation => Units::default(),
        }
    }

    /// The answer to a whole request.
    pub(super) fn of_request(&self) -> Json {
        let kind = match self.kind {
            Kind::ConditionalCheckFailed => "ConditionalCheckFailedException",
            Kind::DuplicateItem => "DuplicateItemException",
            Kind::Validation => "ValidationException",
            Kind::UnknownOperation => "UnknownOperationException",
        };
        let mut answer = json!({
            "__type": format!("com.amazonaws.dynamodb.v20120810#{kind}"),
            "message": self.message,
        });
        if let Some(item) = &self.item {
            answer["Item"] = json!(item);
        }
        answer
    }

    /// The answer to one statement of a batch.
    pub(super) fn of_statement(&self) -> Json {
        let code = match self.kind {
            Kind::ConditionalCheckFailed => "ConditionalCheckFailed",
            Kind::DuplicateItem => "DuplicateItem",
            Kind::Validation | Kind::UnknownOperation => "ValidationError",
        };
        let mut error = json!({"Code": code, "Message": self.message});
        if let Some(item) = &self.item {
            error["Item"] = json!(item);
        }
        error
    }
}
