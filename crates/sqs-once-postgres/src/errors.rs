//! Converts the driver's errors to store errors.

use std::error::Error as StdError;
use std::time::Duration;
use std::{io, iter};

use deadpool_postgres::{PoolError, TimeoutType};
use sqs_once::store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// The error of a failed request.
pub(crate) fn request(error: Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        let (kind, mut message) = (without_code(&error), chain(&error));
        if message.contains("invalid peer certificate") {
            message.push_str("; name the authority to trust by `sslrootcert` or PGSSLROOTCERT");
        }
        if message.contains("server does not support TLS") {
            message.push_str(
                "; a database on another machine needs it, unless `sslmode=disable` says otherwise",
            );
        }
        let error_of = match kind {
            StoreErrorKind::Unanswered => unanswered(message),
            kind => StoreError::new(kind, message),
        };
        return error_of.with_source(error);
    };
    let (kind, fix) = by_code(db.code());
    let message = format!("{}: {}", db.code().code(), db.message());
    let has_details = has_details(db);
    let error_of = match (kind, fix) {
        (kind, Some(fix)) => StoreError::new(kind, message).with_fix(fix),
        (StoreErrorKind::Unanswered, None) => unanswered(message),
        (kind, None) => StoreError::new(kind, message),
    };
    // The details of a violated constraint contain column values, and loggers print an error's sources. Omit the
    // source, so that no key is logged.
    if has_details {
        return error_of;
    }
    error_of.with_source(error)
}

fn has_details(db: &DbError) -> bool {
    db.detail().is_some() || db.where_().is_some()
}

/// The pool could not provide a connection.
pub(crate) fn pool(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => request(error),
        PoolError::Timeout(TimeoutType::Wait) => StoreError::new(
            StoreErrorKind::Throttled,
            "all connections of the pool are in use",
        )
        .with_fix(
            "give the store one for each handler that runs at once, by `.connections(…)` or SQS_ONCE_CONCURRENCY",
        ),
        PoolError::Timeout(_) => unanswered("no connection in time"),
        error => StoreError::new(StoreErrorKind::Other, error.to_string()).with_source(error),
    }
}

/// No answer arrived within `waited`.
pub(crate) fn too_late(waited: Duration) -> StoreError {
    unanswered(format!("no answer within {waited:?}"))
}

pub(crate) fn unanswered(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unanswered, message)
        .with_fix("check the database's address and the function's network")
}

/// Whether the connection is unusable: no answer arrived, or the answer ends the session.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(db) => ends_the_connection(db.code()),
        None => matches!(without_code(error), StoreErrorKind::Unanswered),
    }
}

/// The server shuts down or starts, an administrator ended the session, or the server became a standby. A new
/// connection may reach another server.
fn ends_the_connection(code: &SqlState) -> bool {
    code.code().starts_with("57P")
        || code.code().starts_with("08")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn by_code(code: &SqlState) -> (StoreErrorKind, Option<&'static str>) {
    use StoreErrorKind as Kind;
    let fixed = |kind, fix| (kind, Some(fix));
    if ends_the_connection(code) || *code == SqlState::QUERY_CANCELED {
        return (Kind::Unanswered, None);
    }
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return fixed(
            Kind::AccessDenied,
            "grant the role USAGE on the schema and SELECT, INSERT, UPDATE on processed_events",
        );
    }
    if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        || *code == SqlState::INVALID_PASSWORD
        || *code == SqlState::INVALID_CATALOG_NAME
    {
        return fixed(
            Kind::AccessDenied,
            "check user, password and database of the connection string; with `auth=iam`, that the function's role has \
             rds-db:connect and the user rds_iam",
        );
    }
    if *code == SqlState::UNDEFINED_TABLE || *code == SqlState::INVALID_SCHEMA_NAME {
        return fixed(
            Kind::TableNotFound,
            "apply schema/v1.sql of sqs-once-postgres, in the schema that the store uses",
        );
    }
    if *code == SqlState::UNDEFINED_COLUMN
        || *code == SqlState::UNDEFINED_OBJECT
        || *code == SqlState::DATATYPE_MISMATCH
    {
        return fixed(
            Kind::KeySchema,
            "processed_events is not as schema/v1.sql of sqs-once-postgres makes it",
        );
    }
    match code.code() {
        // Deadlock, serialization failure, lock timeout.
        "40P01" | "40001" | "55P03" => fixed(
            Kind::Throttled,
            "others were at the same rows and it is tried again; if it lasts, lock rows in one order and keep \
             transactions short",
        ),
        "53300" => fixed(
            Kind::Throttled,
            "lower the functions' concurrency or their event sources' MaximumConcurrency, raise the database's \
             max_connections or the role's limit, or put a proxy before it",
        ),
        // No disk space or memory left.
        other if other.starts_with("53") => fixed(
            Kind::Throttled,
            "give the database more of what it says is used up, or lower the functions' concurrency",
        ),
        _ => (Kind::Other, None),
    }
}

/// The kind of an error that the driver itself raised, by the error's causes.
fn without_code(error: &Error) -> StoreErrorKind {
    let mut causes = iter::successors(error.source(), |cause| (*cause).source());
    let is_unanswered = causes.any(|cause| {
        // A rejected certificate also appears as an I/O error.
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|error| {
            !error
                .get_ref()
                .is_some_and(|inner| inner.is::<rustls::Error>())
        })
    });
    if is_unanswered || error.is_closed() {
        StoreErrorKind::Unanswered
    } else {
        StoreErrorKind::Other
    }
}

/// An error and its causes in one line.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let causes = iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
