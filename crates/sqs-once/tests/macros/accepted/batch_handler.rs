//! Batch handlers: keys, extractors and outcomes.

use std::sync::Arc;

use serde::Deserialize;
use sqs_once::extract::{BatchParts, FromBatch, Remaining};
use sqs_once::key::MessageKey;
use sqs_once::{Batch, BatchHandler, BatchOutcome, Completion, Consumer, HandlerError, State};

use super::options::App;

#[derive(Deserialize)]
struct OrderPlaced {
    tenant: Arc<str>,
    order_id: String,
    amount_cents: u64,
    items: Vec<String>,
}

struct Name(Arc<str>);

impl FromBatch<App> for Name {
    async fn from_batch(parts: &BatchParts<App>) -> Result<Self, HandlerError> {
        Ok(Self(Arc::clone(&parts.state().name)))
    }
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn by_a_field(orders: Batch<OrderPlaced>) -> Result<BatchOutcome, HandlerError> {
    let mut outcome = orders.outcome();
    for record in &orders {
        outcome.ended(record, Completion(record.token().to_string()));
    }
    Ok(outcome)
}

#[sqs_once::batch_handler(key = (order.tenant, order.order_id.to_lowercase(), order.items[0]), namespace = "test")]
async fn by_several_parts(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = |order| format!("{}/{}", order.tenant, order.order_id), namespace = "test")]
async fn by_a_closure(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = |OrderPlaced { order_id, .. }| order_id, namespace = "test")]
async fn by_a_pattern(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = |order: &OrderPlaced| order.order_id.clone(), namespace = "test")]
async fn by_a_typed_closure(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

impl OrderPlaced {
    fn business_key(&self) -> String {
        self.order_id.clone()
    }
}

#[sqs_once::batch_handler(key = OrderPlaced::business_key, namespace = "test")]
async fn by_a_function(orders: Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(key = (MessageKey::attribute("tenant"), MessageKey::json_pointer("/order_id")), namespace = "test")]
async fn by_extractors(orders: sqs_once::Batch<OrderPlaced>) -> BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::batch_handler(
    key = order.order_id,
    namespace = "payments",
    mode = record_after,
    fingerprint = placed.amount_cents,
)]
async fn options(orders: Batch<OrderPlaced>) -> Result<BatchOutcome, std::io::Error> {
    Ok(orders.all_succeeded())
}

#[sqs_once::batch_handler(key = order.order_id, namespace = "test")]
async fn extractors(
    orders: Batch<OrderPlaced>,
    State(app): State<App>,
    remaining: Remaining,
    Name(name): Name,
) -> Result<BatchOutcome, HandlerError> {
    drop((app, remaining.duration(), name));
    // The function is unchanged and can be called.
    by_a_field(orders).await
}

#[sqs_once::batch_handler(key = order.order_id, state = App, namespace = "test")]
async fn state_of_an_option(orders: Batch<OrderPlaced>, _: Name) -> BatchOutcome {
    orders.all_succeeded()
}

macro_rules! batch_handlers {
    ($($name:ident: $payload:ty, $key:expr;)*) => {$(
        #[sqs_once::batch_handler(key = $key, namespace = "test")]
        async fn $name(orders: Batch<$payload>) -> BatchOutcome {
            orders.all_succeeded()
        }
    )*};
}

batch_handlers! {
    from_a_macro: OrderPlaced, sqs_once::key::MessageKey::group_id();
}

fn states() {
    let _: fn() -> BatchHandler = by_a_field::handler;
    let _: fn(App) -> BatchHandler = extractors::handler;
    let _: fn(App) -> Consumer = state_of_an_option::consumer;
}
