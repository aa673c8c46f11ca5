//! Deletes expired rows.

use std::num::NonZeroU32;
use std::time::Duration;

use sqs_once::store::StoreError;

use crate::PostgresStore;
use crate::pool::Failure;

/// The time limit of a batch. No invocation waits for it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The result of a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Deleted rows.
    pub rows: u64,
    /// Statements that deleted rows.
    pub batches: u64,
}

impl PostgresStore {
    /// Deletes all rows that expired at least a day ago by the server's clock. Each statement deletes up to `batch`
    /// rows and commits on its own; 1000 is a good value. Rows with a live lease and rows that another transaction is
    /// writing stay. The role needs the privileges SELECT, UPDATE (for row locks) and DELETE.
    ///
    /// [`DELETE_EXPIRED`](crate::DELETE_EXPIRED) does the same for a scheduler inside the database.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not answer. Rows deleted before the error stay deleted.
    pub async fn delete_expired(&self, batch: NonZeroU32) -> Result<Deleted, StoreError> {
        let (batch, mut deleted) = (batch.get().into(), Deleted::default());
        loop {
            let request = self.connections.request(TIMEOUT, |connection| async move {
                let deleted = self.statements.delete_expired(&connection, batch).await;
                (deleted.map_err(Failure::from), connection)
            });
            let (rows, connection) = request.await?;
            connection.release();
            if rows == 0 {
                return Ok(deleted);
            }
            deleted.rows += rows;
            deleted.batches += 1;
        }
    }
}
