//! `cargo sqs-once delete-expired`: deletes expired rows from the table of a PostgreSQL database.

use crate::cli::DeleteExpiredArgs;
use crate::error::Error;
use crate::print;
use sqs_once_postgres::{Deleted, PostgresStore};

pub(crate) async fn delete_expired(args: DeleteExpiredArgs) -> Result<(), Error> {
    let mut store = match &args.database {
        Some(url) => PostgresStore::from_url(url)?,
        None => PostgresStore::from_env()?,
    };
    if let Some(schema) = &args.schema {
        store = store.schema(schema);
    }
    let deleted = store
        .delete_expired(args.batch)
        .await
        .map_err(Error::DeleteExpired)?;
    print::result(told(deleted).as_bytes())
}

/// Formats the result, such as `deleted 2500 rows in 3 batches`.
fn told(deleted: Deleted) -> String {
    let counted = |count, one, many| format!("{count} {}", if count == 1 { one } else { many });
    let rows = counted(deleted.rows, "row", "rows");
    let batches = counted(deleted.batches, "batch", "batches");
    format!("deleted {rows} in {batches}")
}
