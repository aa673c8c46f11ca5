//! Errors as DynamoDB answers them.

use serde_json::{Value as Json, json};

use crate::units::Units;
use crate::value::{Item, item_size};

/// The refusal of a request, of one statement of a batch, or of one write of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    kind: Kind,
    message: String,
    /// The item that refused a conditional write, where that was asked for.
    item: Option<Item>,
    /// What was consumed all the same.
    pub(crate) units: Units,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    ConditionalCheckFailed,
    DuplicateItem,
    ResourceNotFound,
    Validation,
    /// The same, by what the item holds: a transaction that is refused so is cancelled.
    ValidationOfItem,
    IdempotentParameterMismatch,
    /// With what is wrong with each write.
    TransactionCanceled(Vec<Json>),
    UnknownOperation,
}

/// What a write of a transaction says that nothing is wrong with.
pub(crate) const NOTHING_WRONG: &str = "None";

impl ApiError {
    pub(crate) fn validation(message: impl Into<String>) -> Self {
        Self::new(Kind::Validation, message)
    }

    /// What is wrong shows with the item only.
    pub(crate) fn of_item(message: impl Into<String>) -> Self {
        Self::new(Kind::ValidationOfItem, message)
    }

    pub(crate) fn unknown_operation(name: &str) -> Self {
        let message = format!("no operation {name:?} here");
        Self::new(Kind::UnknownOperation, message)
    }

    pub(crate) fn no_table() -> Self {
        Self::new(Kind::ResourceNotFound, "Requested resource not found")
    }

    /// Billed like the write that was attempted.
    pub(crate) fn duplicate(attempted: &Item) -> Self {
        Self {
            units: Units::of_write(item_size(attempted)),
            ..Self::new(Kind::DuplicateItem, "Duplicate primary key exists in table")
        }
    }

    pub(crate) fn condition(found: Option<&Item>, is_shown: bool) -> Self {
        Self {
            item: found.filter(|_| is_shown).cloned(),
            units: Units::of_write(found.map_or(0, item_size)),
            ..Self::new(
                Kind::ConditionalCheckFailed,
                "The conditional request failed",
            )
        }
    }

    pub(crate) fn other_parameters() -> Self {
        Self::new(
            Kind::IdempotentParameterMismatch,
            "An error occurred: the request uses a client token with other parameters",
        )
    }

    /// With what is wrong with each write, or is not.
    pub(crate) fn cancelled(writes: &[Option<Self>]) -> Self {
        let codes = writes.iter().map(|write| match write {
            Some(error) => error.short_code(),
            None => NOTHING_WRONG,
        });
        let codes: Vec<_> = codes.collect();
        let message = format!(
            "Transaction cancelled, please refer cancellation reasons for specific reasons [{}]",
            codes.join(", ")
        );
        let reasons = writes.iter().map(|write| match write {
            Some(error) => error.of_part(),
            None => json!({"Code": NOTHING_WRONG}),
        });
        let units = writes.iter().flatten().map(|error| error.units.twice());
        Self {
            units: units.fold(Units::default(), |all, one| all + one),
            ..Self::new(Kind::TransactionCanceled(reasons.collect()), message)
        }
    }

    fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            item: None,
            units: Units::default(),
        }
    }

    /// Whether a statement that failed so was carried out as far as its table.
    pub(crate) fn names_table(&self) -> bool {
        !matches!(self.kind, Kind::Validation | Kind::ValidationOfItem)
    }

    /// Whether it is of one write of a transaction, and not of the request.
    pub(crate) fn cancels(&self) -> bool {
        matches!(
            self.kind,
            Kind::ConditionalCheckFailed | Kind::ValidationOfItem
        )
    }

    /// The answer to a whole request.
    pub(crate) fn of_request(&self) -> Json {
        let kind = match &self.kind {
            Kind::ConditionalCheckFailed => "ConditionalCheckFailedException",
            Kind::DuplicateItem => "DuplicateItemException",
            Kind::ResourceNotFound => "ResourceNotFoundException",
            Kind::Validation | Kind::ValidationOfItem => "ValidationException",
            Kind::IdempotentParameterMismatch => "IdempotentParameterMismatchException",
            Kind::TransactionCanceled(_) => "TransactionCanceledException",
            Kind::UnknownOperation => "UnknownOperationException",
        };
        let service = match &self.kind {
            // Of what is found before a request is looked at.
            Kind::Validation | Kind::UnknownOperation => "com.amazon.coral.validate",
            _ => "com.amazonaws.dynamodb.v20120810",
        };
        let mut answer = json!({
            "__type": format!("{service}#{kind}"),
            "message": self.message,
        });
        if let Some(item) = &self.item {
            answer["Item"] = json!(item);
        }
        if let Kind::TransactionCanceled(reasons) = &self.kind {
            answer["CancellationReasons"] = json!(reasons);
        }
        answer
    }

    /// The answer to one statement of a batch, or to one write of a transaction.
    pub(crate) fn of_part(&self) -> Json {
        let mut error = json!({"Code": self.short_code(), "Message": self.message});
        if let Some(item) = &self.item {
            error["Item"] = json!(item);
        }
        error
    }

    fn short_code(&self) -> &'static str {
        match self.kind {
            Kind::ConditionalCheckFailed => "ConditionalCheckFailed",
            Kind::DuplicateItem => "DuplicateItem",
            Kind::ResourceNotFound => "ResourceNotFound",
            _ => "ValidationError",
        }
    }
}
