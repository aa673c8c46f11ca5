//! The attribute's output passes the strictest lints.

#![deny(
    warnings,
    missing_docs,
    missing_copy_implementations,
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    single_use_lifetimes,
    unused_lifetimes,
    unused_results,
    elided_lifetimes_in_paths,
    let_underscore_drop,
    trivial_casts,
    clippy::all,
    clippy::pedantic,
    clippy::nursery
)]
#![forbid(unsafe_code)]

use std::time::Duration;

use serde::Deserialize;
use sqs_once::extract::FromRecord;
use sqs_once::handler::{ErrorDisposition, IntoOutcome};
use sqs_once::key::{KeyError, KeyExtractor, MessageKey};
use sqs_once::{
    Batch, BatchOutcome, BusinessKey, Consumer, Handler, HandlerError, State, Writes,
    batch_handler, handler,
};

/// An order.
#[derive(BusinessKey, Clone, Debug, Deserialize)]
pub struct OrderPlaced {
    /// The customer.
    #[key]
    pub tenant: String,
    /// The order's ID.
    #[key]
    pub order_id: String,
}

/// The public part of a crate.
pub mod orders {
    use sqs_once::body::{EventBridge, Json, Sns};
    use sqs_once::{HandlerError, State, handler};

    use super::OrderPlaced;

    /// Charges.
    ///
    /// # Errors
    /// When the order has no tenant.
    #[handler(
        key = (order.tenant, order.order_id),
        namespace = "orders",
        mode = record_after,
        fingerprint = (order.order_id, order.tenant),
        decode = Json,
        envelope = (Sns, EventBridge),
        state = String
    )]
    pub async fn charge(
        order: OrderPlaced,
        State(name): State<String>,
    ) -> Result<(), HandlerError> {
        if order.tenant == name {
            std::future::ready(()).await;
        }
        Ok(())
    }
}

/// An event whose name the output of the macros has, too.
#[derive(Clone, Debug, Deserialize)]
pub struct Returned {
    /// The order's ID.
    pub order_id: String,
}

#[handler(key = returned.order_id, namespace = "test")]
async fn restock(returned: Returned) -> Result<(), ShipError> {
    drop(std::future::ready(returned).await);
    Ok(())
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, thiserror::Error, ErrorDisposition)]
pub enum ShipError {
    /// There is no such address.
    #[error("no such address")]
    #[disposition(terminal)]
    NoAddress,
    /// The carrier is closed.
    #[error("closed until {0}")]
    #[disposition(retry_after = "1h")]
    Closed(u64),
    /// The label did not print.
    #[error("no paper")]
    #[disposition(retry_after = "1h")]
    NoPaper {
        /// The printer.
        printer: u64,
    },
    /// The carrier's answer is lost.
    #[error("no answer")]
    #[disposition(unavailable = "carrier", outcome_unknown)]
    NoAnswer,
    /// Something else.
    #[error("something else")]
    Other,
}

#[handler(key = order.order_id, namespace = "test")]
async fn pack(order: OrderPlaced) -> Result<(), ShipError> {
    std::future::ready(order)
        .await
        .tenant
        .is_empty()
        .then_some(())
        .ok_or(ShipError::Other)
}

#[handler(key = order_id, fingerprint = order_id, namespace = "test")]
async fn ship(OrderPlaced { tenant, order_id }: OrderPlaced) {
    drop(std::future::ready((tenant, order_id)).await);
}

#[handler(key = order.order_id, mode = claim_first, namespace = "test")]
async fn reserve(order: OrderPlaced) -> Result<Writes, HandlerError> {
    drop(std::future::ready(order).await);
    Ok(Writes::new())
}

#[handler(key = MessageKey::attribute("order-id"), namespace = "test")]
async fn notify(order: OrderPlaced) -> Result<(), HandlerError> {
    drop(std::future::ready(order).await);
    Ok(())
}

#[handler(key = order, namespace = "test")]
async fn whole(order: OrderPlaced) {
    drop(std::future::ready(order).await);
}

#[handler(key = order.order_id.trim(), namespace = "test")]
async fn trim(order: OrderPlaced) {
    drop(std::future::ready(order).await);
}

#[batch_handler(key = (order.tenant, order.order_id), fingerprint = |order| order.order_id.trim(), namespace = "test")]
async fn insert(
    orders: Batch<OrderPlaced>,
    State(name): State<String>,
) -> Result<BatchOutcome, HandlerError> {
    drop(std::future::ready(name).await);
    Ok(orders.all_succeeded())
}

/// Uses the imports above, so that the lints would report any path in the attribute's output that could be shorter.
fn imported<T: FromRecord<()>>(
    _: Option<T>,
    _: &impl KeyExtractor<OrderPlaced>,
    outcome: impl IntoOutcome,
) -> Result<BusinessKey, KeyError> {
    drop(Handler::json::<OrderPlaced>());
    assert!(outcome.into_outcome().is_ok());
    BusinessKey::new(&Duration::ZERO.as_millis())
}

#[test]
fn what_the_attribute_writes_passes_the_strictest_lints() {
    assert!(imported(None::<State<()>>, &MessageKey::attribute("order-id"), ()).is_ok());
    let consumer: Consumer = orders::charge::consumer("tenant-7".to_owned());
    drop((
        consumer,
        pack::consumer(),
        restock::consumer(),
        ship::consumer(),
        notify::consumer(),
        reserve::consumer(),
        trim::consumer(),
        whole::consumer(),
        insert::handler("tenant-7".to_owned()),
    ));
}
