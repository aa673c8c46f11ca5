//! Hints for errors, and the errors that several commands have.

use anyhow::Error;
use sqs_once_local::{DynamoDbError, EventError, InvokeError};

pub(crate) const INTERRUPTED: &str = "interrupted";

/// The function ended, or hung, before it took an event.
#[derive(Debug, thiserror::Error)]
#[error("the function did not start")]
pub(crate) struct NotStarted {
    /// How its environment differs from the template.
    pub(crate) differences: Vec<String>,
}

#[cfg(not(feature = "aws"))]
pub(crate) const NO_AWS: NotBuilt = NotBuilt {
    what: "AWS",
    help: "`cargo run -p cargo-sqs-once -- key` builds one that does; \
           so does `cargo install cargo-sqs-once`",
};

#[cfg(not(feature = "postgres"))]
pub(crate) const NO_POSTGRES: NotBuilt = NotBuilt {
    what: "PostgreSQL",
    help: "`cargo run -p cargo-sqs-once -- postgres` builds one that does, \
           and so does `cargo install cargo-sqs-once`",
};

/// This build lacks a feature.
#[cfg(not(all(feature = "aws", feature = "postgres")))]
#[derive(Debug, thiserror::Error)]
#[error("this build of cargo-sqs-once does not support {what}")]
pub(crate) struct NotBuilt {
    what: &'static str,
    help: &'static str,
}

/// A hint for the user, if the message does not contain one.
pub(crate) fn help(error: &Error) -> Option<String> {
    if let Some(NotStarted { differences }) = error.downcast_ref() {
        return Some(match differences.is_empty() {
            true => "its own last lines say why; a Lambda function calls `sqs_once::run`, which does not return"
                .to_owned(),
            false => differences.join("\n        "),
        });
    }
    fixed_help(error).map(str::to_owned)
}

fn fixed_help(error: &Error) -> Option<&'static str> {
    let of_database = error.downcast_ref();
    if let Some(DynamoDbError::OtherKeys { .. } | DynamoDbError::Open { .. }) = of_database {
        return Some("--reset starts with an empty database");
    }
    if let Some(DynamoDbError::InUse { .. }) = of_database {
        return Some(
            "projects with one target folder share it: give one of them its own CARGO_TARGET_DIR",
        );
    }
    if let Some(EventError::OtherSource { .. }) = error.downcast_ref() {
        return Some("`invoke --raw` sends the event unchanged");
    }
    match error.downcast_ref() {
        Some(InvokeError::TimedOut { .. }) => return Some("--timeout gives it more time"),
        Some(InvokeError::Exited { .. }) => {
            return Some("its claims stay until their leases end; --reset removes them at once");
        }
        _ => {}
    }
    #[cfg(not(all(feature = "aws", feature = "postgres")))]
    if let Some(NotBuilt { help, .. }) = error.downcast_ref() {
        return Some(help);
    }
    #[cfg(feature = "postgres")]
    if let Some(error) = error.downcast_ref::<sqs_once::store::StoreError>()
        && error.kind() == sqs_once::store::StoreErrorKind::AccessDenied
    {
        return Some("a role that deletes needs SELECT, UPDATE and DELETE on processed_events");
    }
    None
}
