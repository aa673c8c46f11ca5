//! The effect. It only logs: call your own service here instead.

use sqs_once::{HandlerError, IdempotencyToken};

use crate::order::OrderPlaced;

/// The client of the warehouse.
#[derive(Clone, Default)]
pub(crate) struct Warehouse {
    /// The token of every shipment, for the tests.
    #[cfg(test)]
    pub(crate) shipped: std::sync::Arc<std::sync::Mutex<Vec<String>>>,
}

impl Warehouse {
    /// Requests the shipment of an order.
    ///
    /// If the process dies between this call and the completion of the order's key, the function repeats the call with
    /// the same token. A service that deduplicates by the token (for example as `Idempotency-Key`) still ships only
    /// once.
    ///
    /// An error means that SQS redelivers the message. Add `.terminal()` if a retry can't help.
    pub(crate) async fn ship(
        &self,
        order: &OrderPlaced,
        token: &IdempotencyToken,
    ) -> Result<(), HandlerError> {
        #[cfg(test)]
        self.shipped.lock().unwrap().push(token.to_string());
        // The log line already contains the message id.
        tracing::info!(pieces = order.pieces, %token, "shipped");
        Ok(())
    }
}
