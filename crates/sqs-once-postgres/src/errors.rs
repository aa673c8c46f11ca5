//! Converts the driver's errors to store errors.

use std::error::Error as StdError;
use std::time::Duration;
use std::{io, iter};

use deadpool_postgres::{PoolError, TimeoutType};
use sqs_once::store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::values;

/// Converts the error of a failed request.
pub(crate) fn request(error: Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        let (kind, mut message) = (without_code(&error), chain(&error));
        if message.contains("invalid peer certificate") {
            message.push_str("; name the authority to trust by `sslrootcert` or PGSSLROOTCERT");
        }
        if message.contains("server does not support TLS") {
            message.push_str(
                "; a database on another machine needs TLS unless the connection string sets `sslmode=disable`",
            );
        }
        return without_fix(kind, message).with_source(error);
    };
    let (kind, fix) = by_code(db.code());
    let message = values::summary(db);
    let has_values = db.detail().is_some() || db.where_().is_some() || values::quotes(db);
    let error_of = match fix {
        Some(fix) => StoreError::new(kind, message).with_fix(fix),
        None => without_fix(kind, message),
    };
    // Loggers print an error's sources. Omit the source, so that no column value is logged.
    match has_values {
        true => error_of,
        false => error_of.with_source(error),
    }
}

/// Creates an error whose kind alone determines the fix.
fn without_fix(kind: StoreErrorKind, message: String) -> StoreError {
    match kind {
        StoreErrorKind::Unanswered => unanswered(message),
        kind => StoreError::new(kind, message),
    }
}

/// Converts the error of a pool that could not provide a connection.
pub(crate) fn pool(error: PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => request(error),
        PoolError::Timeout(TimeoutType::Wait) => StoreError::new(
            StoreErrorKind::Throttled,
            "all connections of the pool are in use",
        )
        .with_fix(
            "give the store one connection for each concurrent handler of all batches in the process, with \
             `.connections(…)`",
        ),
        PoolError::Timeout(_) => unanswered("no connection opened in time"),
        error => StoreError::new(StoreErrorKind::Other, error.to_string()).with_source(error),
    }
}

/// Creates the error for a request without an answer within `waited`.
pub(crate) fn too_late(waited: Duration) -> StoreError {
    unanswered(format!("no answer within {waited:?}"))
}

pub(crate) fn unanswered(message: impl Into<String>) -> StoreError {
    StoreError::new(StoreErrorKind::Unanswered, message)
        .with_fix("check the database's address and the function's network")
}

/// Returns whether the connection is unusable: no answer arrived, or the answer ends the session.
pub(crate) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        Some(db) => ends_the_connection(db.code()),
        None => matches!(without_code(error), StoreErrorKind::Unanswered),
    }
}

/// Returns whether the code ends the session: the server shuts down or starts, an administrator or a time limit ended the
/// session, or the server became a standby. A new connection may reach another server.
fn ends_the_connection(code: &SqlState) -> bool {
    code.code().starts_with("57P")
        || code.code().starts_with("08")
        || *code == SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        || code.code() == TRANSACTION_TIMEOUT
}

/// PostgreSQL 17 introduced it, and the driver has no name for it.
const TRANSACTION_TIMEOUT: &str = "25P04";

fn by_code(code: &SqlState) -> (StoreErrorKind, Option<&'static str>) {
    use StoreErrorKind as Kind;
    let (kind, fix) = match *code {
        SqlState::QUERY_CANCELED => return (Kind::Unanswered, None),
        _ if ends_the_connection(code) => return (Kind::Unanswered, None),
        SqlState::INSUFFICIENT_PRIVILEGE => (
            Kind::AccessDenied,
            "grant the role USAGE on the schema and SELECT, INSERT, UPDATE on processed_events",
        ),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | SqlState::INVALID_PASSWORD
        | SqlState::INVALID_CATALOG_NAME => (
            Kind::AccessDenied,
            "check user, password and database of the connection string; with `auth=iam`, that the function's role has \
             rds-db:connect and the user rds_iam",
        ),
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => (
            Kind::TableNotFound,
            "apply schema/v1.sql of sqs-once-postgres, in the schema that the store uses",
        ),
        SqlState::UNDEFINED_COLUMN | SqlState::UNDEFINED_OBJECT | SqlState::DATATYPE_MISMATCH => (
            Kind::KeySchema,
            "processed_events differs from schema/v1.sql of sqs-once-postgres",
        ),
        SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::LOCK_NOT_AVAILABLE => (
            Kind::Throttled,
            "other transactions used the same rows; the message is retried; if this persists, lock rows in one order \
             and keep transactions short",
        ),
        SqlState::TOO_MANY_CONNECTIONS => (
            Kind::Throttled,
            "lower the functions' concurrency or their event sources' MaximumConcurrency, raise the database's \
             max_connections or the role's limit, or put a proxy before it",
        ),
        // No disk space or memory left.
        _ if code.code().starts_with("53") => (
            Kind::Throttled,
            "give the database more of the exhausted resource, or lower the functions' concurrency",
        ),
        _ => return (Kind::Other, None),
    };
    (kind, Some(fix))
}

/// Returns the kind of an error that the driver itself raised, by the error's causes.
fn without_code(error: &Error) -> StoreErrorKind {
    let mut causes = iter::successors(error.source(), |cause| (*cause).source());
    let is_unanswered = causes.any(|cause| {
        // A rejected certificate also appears as an I/O error.
        let io = cause.downcast_ref::<io::Error>();
        let is_tls = |error: &io::Error| error.get_ref().is_some_and(|it| it.is::<rustls::Error>());
        io.is_some_and(|error| !is_tls(error))
    });
    match is_unanswered || error.is_closed() {
        true => StoreErrorKind::Unanswered,
        false => StoreErrorKind::Other,
    }
}

/// Returns an error and its causes in one line.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let causes = iter::successors(Some(error), |error| (*error).source());
    let texts: Vec<_> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
