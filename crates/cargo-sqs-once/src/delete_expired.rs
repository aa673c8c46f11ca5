//! `cargo sqs-once delete-expired`: deletes expired rows from the table of a PostgreSQL database.

use crate::cli::DeleteExpiredArgs;
use crate::error::Error;
use crate::print;
use sqs_once_postgres::PostgresStore;

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
    let rows = print::counted(deleted.rows, "row", "rows");
    let batches = print::counted(deleted.batches, "batch", "batches");
    print::result(format!("deleted {rows} in {batches}"))
}
