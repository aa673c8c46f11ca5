//! Errors of a handler's statements without their values.

use sqs_once::HandlerError;
use tokio_postgres::Error;
use tokio_postgres::error::DbError;

/// Converts the error of a statement and omits column values.
///
/// The driver's own error shows the values that violate a constraint. They would appear in the log and on the dead
/// letter.
///
/// The result contains the code, the message, and the names of the table and the constraint. For malformed or
/// out-of-range data (class 22), it omits the message too, since the message quotes the data. Errors that the
/// database's functions and triggers raise are shown as they are. Errors that do not come from the server (no answer, a
/// parameter of the wrong type) are unchanged.
///
/// The message is retried, unless the handler calls `.terminal()` on the error.
///
/// ```no_run
/// use sqs_once::HandlerError;
/// use sqs_once_postgres::{Transaction, without_values};
/// # #[derive(serde::Deserialize)] struct CardAdded { id: String, card: String }
///
/// #[sqs_once::handler(key = added.id, namespace = "stock")]
/// async fn add(added: CardAdded, tx: Transaction) -> Result<(), HandlerError> {
///     let insert = "INSERT INTO cards (card) VALUES ($1)";
///     // 23505: duplicate key value violates unique constraint "cards_pkey" (table cards, constraint cards_pkey)
///     tx.execute(insert, &[&added.card]).await.map_err(without_values)?;
///     Ok(())
/// }
/// ```
pub fn without_values(error: Error) -> HandlerError {
    match error.as_db_error() {
        Some(db) => HandlerError::retry(summary(db)),
        None => HandlerError::retry(error),
    }
}

/// Returns whether the message quotes data: it is malformed or out of range.
pub(crate) fn quotes(db: &DbError) -> bool {
    db.code().code().starts_with("22")
}

/// Describes an error without column values.
pub(crate) fn summary(db: &DbError) -> String {
    let code = db.code().code();
    let message = match quotes(db) {
        true => "a value is malformed or out of range",
        false => db.message(),
    };
    match (db.table(), db.constraint()) {
        (None, None) => format!("{code}: {message}"),
        (Some(table), None) => format!("{code}: {message} (table {table})"),
        (None, Some(name)) => format!("{code}: {message} (constraint {name})"),
        (Some(table), Some(name)) => {
            format!("{code}: {message} (table {table}, constraint {name})")
        }
    }
}
