//! Deleting rows that have expired.

use std::num::NonZeroU32;
use std::time::Duration;

use sqs_once::store::StoreError;

use crate::PostgresStore;
use crate::pool::Failure;

/// How long a batch may take: no invocation waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How many rows were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Rows.
    pub rows: u64,
    /// Statements that deleted some of them.
    pub batches: u64,
}

impl PostgresStore {
    /// Deletes the rows that expired a day ago or earlier, by the server's clock, until there are none: `batch`
    /// rows a statement (1000 is a good number), each of which commits on its own. Rows whose lease is alive, and
    /// rows that somebody is writing, stay. The role needs the privileges SELECT, UPDATE (it locks what it deletes) and
    /// DELETE.
    ///
    /// This is what [`DELETE_EXPIRED`](crate::DELETE_EXPIRED) does for a scheduler inside the database.
    ///
    /// # Errors
    /// [`StoreError`] when the store does not answer. What was deleted by then stays deleted.
    pub async fn delete_expired(&self, batch: NonZeroU32) -> Result<Deleted, StoreError> {
        let mut deleted = Deleted::default();
        loop {
            let rows = self.delete_batch(batch.get().into()).await?;
            if rows == 0 {
                return Ok(deleted);
            }
            deleted.rows += rows;
            deleted.batches += 1;
        }
    }

    async fn delete_batch(&self, batch: i64) -> Result<u64, StoreError> {
        let request = self.connections.request(TIMEOUT, |connection| async move {
            let deleted = self.statements.delete_expired(&connection, batch).await;
            (deleted.map_err(Failure::from), connection)
        });
        let (rows, connection) = request.await?;
        connection.release();
        Ok(rows)
    }
}
