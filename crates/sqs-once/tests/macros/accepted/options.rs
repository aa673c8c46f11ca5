//! Options, and every kind of state. The handler `charge` of `strict_lints` has all options.

use std::sync::Arc;

use serde::Deserialize;
use sqs_once::body::{Base64, EventBridge, Sns};
use sqs_once::extract::{FromRecord, Message, RecordParts};
use sqs_once::key::MessageKey;
use sqs_once::{Consumer, Handler, HandlerError, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    note: Option<String>,
}

#[derive(Clone)]
pub(super) struct App {
    pub(super) name: Arc<str>,
}

struct Name(Arc<str>);

impl FromRecord<App> for Name {
    async fn from_record(parts: &RecordParts<App>) -> Result<Self, HandlerError> {
        Ok(Self(Arc::clone(&parts.state().name)))
    }
}

#[sqs_once::handler(decode = Base64, key = MessageKey::attribute("order-id"), envelope = Sns, namespace = "test")]
async fn bytes(image: Vec<u8>) {}

/// A decoder with a parameter.
struct Prefixed<'a>(&'a str);

impl sqs_once::body::Decode<OrderPlaced> for Prefixed<'static> {
    fn decode(&self, body: &str, _: &Message) -> Result<OrderPlaced, sqs_once::body::DecodeError> {
        let id = body.strip_prefix(self.0);
        let id = id.ok_or_else(|| sqs_once::body::DecodeError::other("it has another prefix"))?;
        Ok(OrderPlaced {
            order_id: id.to_owned(),
            note: None,
        })
    }
}

#[sqs_once::handler(key = order.order_id, decode = Prefixed("v1 "), namespace = "test")]
async fn own_decoder(order: OrderPlaced) {}

fn text(order: &OrderPlaced) -> String {
    order.order_id.to_lowercase()
}

#[sqs_once::handler(key = order.order_id, fingerprint = text, namespace = "test")]
async fn fingerprint_by_function(order: OrderPlaced) {}

#[sqs_once::batch_handler(key = order.order_id, fingerprint = none, namespace = "test")]
async fn without_fingerprint(orders: sqs_once::Batch<OrderPlaced>) -> sqs_once::BatchOutcome {
    orders.all_succeeded()
}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn state_of_an_argument(order: OrderPlaced, State(app): State<App>, _: Name) {}

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn state_by_its_path(order: OrderPlaced, app: sqs_once::State<Arc<App>>) {}

#[sqs_once::handler(key = order.order_id, state = App, namespace = "test")]
async fn state_of_an_option(order: OrderPlaced, name: Name) {}

/// Values that another macro inserts.
macro_rules! filled_in {
    ($name:ident, $mode:expr, $decoder:expr, $envelope:expr) => {
        #[sqs_once::handler(key = order.order_id, mode = $mode, decode = $decoder, envelope = $envelope, namespace = "test")]
        async fn $name(order: OrderPlaced) {}
    };
}

filled_in!(by_macro, record_after, Prefixed("v1 "), (Sns, EventBridge));

fn states() {
    let _: fn() -> Handler = bytes::handler;
    let _: fn() -> Consumer = bytes::consumer;
    let _: fn(App) -> Handler = state_of_an_argument::handler;
    let _: fn(Arc<App>) -> Consumer = state_by_its_path::consumer;
    let _: fn(App) -> Consumer = state_of_an_option::consumer;
}
