//! Errors as DynamoDB answers them.

use serde_json::{Value as Json, json};

use super::units::Units;
use super::value::{Item, item_size};

/// The refusal of a request, or of one statement of a batch.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The name of the error, without `Exception`.
    kind: &'static str,
    message: String,
    /// The item that refused a conditional write, if the request asks for it.
    item: Option<Item>,
    /// The units that the request consumed all the same.
    pub(super) units: Units,
}

impl Refusal {
    pub(super) fn validation(message: impl Into<String>) -> Self {
        Self {
            kind: "Validation",
            message: message.into(),
            item: None,
            units: Units::default(),
        }
    }

    /// Consumes as much as the attempted write.
    pub(super) fn duplicate(attempted: &Item) -> Self {
        Self {
            kind: "DuplicateItem",
            units: Units::of_write(item_size(attempted)),
            ..Self::validation("Duplicate primary key exists in table")
        }
    }

    /// `shown` is the request's `ReturnValuesOnConditionCheckFailure`.
    pub(super) fn condition(found: Option<&Item>, shown: Option<&str>) -> Self {
        Self {
            kind: "ConditionalCheckFailed",
            item: found.filter(|_| shown == Some("ALL_OLD")).cloned(),
            units: Units::of_write(found.map_or(0, item_size)),
            ..Self::validation("The conditional request failed")
        }
    }

    /// The answer to a whole request.
    pub(super) fn of_request(&self) -> Json {
        let kind = format!("com.amazonaws.dynamodb.v20120810#{}Exception", self.kind);
        self.with_item(json!({"__type": kind, "message": self.message}))
    }

    /// The answer to one statement of a batch.
    pub(super) fn of_statement(&self) -> Json {
        let code = match self.kind {
            "Validation" => "ValidationError",
            kind => kind,
        };
        self.with_item(json!({"Code": code, "Message": self.message}))
    }

    fn with_item(&self, mut answer: Json) -> Json {
        if let Some(item) = &self.item {
            answer["Item"] = json!(item);
        }
        answer
    }
}
