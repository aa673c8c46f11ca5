//! `cargo sqs-once postgres delete-expired`: deletes expired rows from the table of a PostgreSQL database.

use crate::cli::DeleteExpiredArgs;
use crate::print;
use anyhow::{Context, Result};
use sqs_once_postgres::PostgresStore;
use std::num::NonZeroU32;

/// The rows of a batch. Its transaction locks them only briefly.
const BATCH: NonZeroU32 = NonZeroU32::MIN.saturating_add(999);

pub(crate) async fn delete_expired(args: DeleteExpiredArgs) -> Result<()> {
    let store = match &args.database {
        Some(url) => PostgresStore::from_url(url)?,
        None => PostgresStore::from_env()?,
    };
    let deleted = store.delete_expired(BATCH).await;
    let deleted =
        deleted.context("the deletion stopped early; the rows of finished batches are deleted")?;
    let rows = print::counted(deleted.rows, "row", "rows");
    let batches = print::counted(deleted.batches, "batch", "batches");
    print::result(format!("deleted {rows} in {batches}"))
}
