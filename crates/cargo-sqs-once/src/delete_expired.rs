//! `cargo sqs-once delete-expired`: deletes expired rows from the table of a PostgreSQL database.

use crate::cli::DeleteExpiredArgs;
use crate::print;
use anyhow::{Context, Result};
use sqs_once_postgres::PostgresStore;

pub(crate) async fn delete_expired(args: DeleteExpiredArgs) -> Result<()> {
    let mut store = match &args.database {
        Some(url) => PostgresStore::from_url(url)?,
        None => PostgresStore::from_env()?,
    };
    if let Some(schema) = &args.schema {
        store = store.schema(schema);
    }
    let deleted = store.delete_expired(args.batch).await;
    let deleted =
        deleted.context("the deletion stopped early; the rows of finished batches are deleted")?;
    let rows = print::counted(deleted.rows, "row", "rows");
    let batches = print::counted(deleted.batches, "batch", "batches");
    print::result(format!("deleted {rows} in {batches}"))
}
