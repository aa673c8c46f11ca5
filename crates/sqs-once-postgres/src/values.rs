//! Errors of a handler's statements, without what they were about.

use sqs_once::HandlerError;
use thiserror::Error as ThisError;
use tokio_postgres::Error;
use tokio_postgres::error::DbError;

/// An error of a statement without the values that it was about: those of columns that violate a constraint, which
/// the driver's own error shows, and which would go into the log and onto a dead letter.
///
/// What is left is the code, the message, and the names of the table and the constraint. Of data that is malformed or
/// out of range (class 22), whose messages quote it, the message is left out too. What the functions and triggers of
/// the database itself raise is shown as they say it. An error that is not the server's (no answer, a parameter of
/// another type) stays as it is.
///
/// The record is tried again, unless `.terminal()` says otherwise.
///
/// ```no_run
/// use sqs_once::HandlerError;
/// use sqs_once_postgres::{Transaction, without_values};
/// # #[derive(serde::Deserialize)] struct CardAdded { id: String, card: String }
///
/// #[sqs_once::handler(key = added.id)]
/// async fn add(added: CardAdded, tx: Transaction) -> Result<(), HandlerError> {
///     let insert = "INSERT INTO cards (card) VALUES ($1)";
///     // 23505: duplicate key value violates unique constraint "cards_pkey" (table cards, constraint cards_pkey)
///     tx.execute(insert, &[&added.card]).await.map_err(without_values)?;
///     Ok(())
/// }
/// ```
pub fn without_values(error: Error) -> HandlerError {
    match error.as_db_error() {
        Some(db) => HandlerError::retry(Brief(summary(db))),
        None => HandlerError::retry(error),
    }
}

#[derive(Debug, ThisError)]
#[error("{0}")]
struct Brief(String);

fn summary(db: &DbError) -> String {
    let code = db.code().code();
    let message = match code.starts_with("22") {
        true => "a value is malformed or out of range",
        false => db.message(),
    };
    let names = [("table", db.table()), ("constraint", db.constraint())];
    let names = names.into_iter();
    let names: Vec<_> = names
        .filter_map(|(kind, name)| Some(format!("{kind} {}", name?)))
        .collect();
    match names.is_empty() {
        true => format!("{code}: {message}"),
        false => format!("{code}: {message} ({})", names.join(", ")),
    }
}
