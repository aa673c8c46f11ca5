//! The effect. It only logs: put the call to your own service here.

use sqs_once::{HandlerError, IdempotencyToken};

use crate::order::OrderPlaced;

/// The warehouse's service.
#[derive(Clone, Default)]
pub(crate) struct Warehouse {
    /// The token of every shipment, for the tests.
    #[cfg(test)]
    pub(crate) shipped: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Warehouse {
    /// Has an order shipped.
    ///
    /// If the process dies between this and the record of the order's key, it is asked for again, with the same token.
    /// A service that deduplicates by it (`Idempotency-Key`, and the like) ships once all the same.
    ///
    /// An error means: try again later. `.terminal()` says that no retry can help.
    pub(crate) async fn ship(
        &self,
        order: &OrderPlaced,
        token: &IdempotencyToken,
    ) -> Result<(), HandlerError> {
        #[cfg(test)]
        self.shipped.lock().unwrap().push(token.to_string());
        // The line names the message by itself.
        tracing::info!(pieces = order.pieces, %token, "shipped");
        Ok(())
    }
}
