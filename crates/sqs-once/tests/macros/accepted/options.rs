//! Every option, and every state.

use std::sync::Arc;

use serde::Deserialize;
use sqs_once::body::{Bytes, EventBridge, Sns};
use sqs_once::consumer::Ready;
use sqs_once::extract::{FromRecord, Message, RecordParts};
use sqs_once::hook::RecordEnd;
use sqs_once::key::MessageAttribute;
use sqs_once::{Consumer, HandlerError, State, Writes};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
    note: Option<String>,
}

#[derive(Clone)]
struct App {
    name: Arc<str>,
}

/// An extractor that wants the application's state.
struct Name(Arc<str>);

impl FromRecord<App> for Name {
    fn from_record(parts: &RecordParts<App>) -> Result<Self, HandlerError> {
        Ok(Self(Arc::clone(&parts.state().name)))
    }
}

fn keys_before() -> sqs_once::key::Namespace {
    sqs_once::key::Namespace::new("billing").expect("a namespace")
}

#[sqs_once::handler(
    key = order.order_id,
    namespace = "payments",
    concurrency = 16,
    lease_margin = "500ms",
    retain = "28d",
    mode = record_after,
    fingerprint = (order.order_id, order.note),
    payload_mismatch = reject,
    missing_key = process_unprotected,
    record_timeout = "10s",
    deadline_margin = "1s",
    in_progress = wait("5s"),
    fifo = return_batch,
    raise_on_total_failure = true,
    readable_keys = true,
    key_codec = keys_before().into(),
    also_read = keys_before(),
    cache = 1000,
    requests = single,
    decode = sqs_once::body::Json,
    envelope = (Sns, EventBridge),
    correlation_id = |message| message.attribute("request-id").map(str::to_owned),
    on_success = hooks::reply,
    on_duplicate = hooks::reply,
    on_failure = async |end| alarm(end.outcome()),
    backoff = exponential("2s", "15m"),
    after_dead_letter = go_on,
)]
async fn all(order: OrderPlaced) {
    drop(order);
}

#[sqs_once::handler(retain = "12h", key = order.order_id, mode = claim_first, lease_margin = "0s")]
async fn any_order(order: OrderPlaced) {
    drop(order);
}

#[sqs_once::handler(
    key = order_id,
    fingerprint = note,
    payload_mismatch = warn,
    missing_key = terminal,
    cache = (1000, "1m"),
    requests = batched,
    in_progress = return_to_queue,
    fifo = return_group,
    raise_on_total_failure = false,
    backoff = exponential("2s", "2s"),
    after_dead_letter = stop
)]
async fn destructured(OrderPlaced { order_id, note }: OrderPlaced) {
    drop((order_id, note));
}

mod hooks {
    use sqs_once::HandlerError;
    use sqs_once::hook::RecordEnd;

    pub async fn reply(end: RecordEnd) -> Result<(), HandlerError> {
        let receipt: Option<String> = end.recorded()?;
        drop(receipt);
        Ok(())
    }
}

fn alarm(outcome: sqs_once::telemetry::Outcome) -> Result<(), HandlerError> {
    drop(outcome.to_string());
    Ok(())
}

fn request_id(message: &Message) -> Option<String> {
    Some(message.id().to_owned())
}

#[sqs_once::handler(
    decode = Bytes,
    key = MessageAttribute::new("order-id"),
    envelope = Sns,
    correlation_id = request_id
)]
async fn bytes(image: Vec<u8>) {
    drop(image);
}

/// A decoder that is made of something.
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

#[sqs_once::handler(key = order.order_id, decode = Prefixed("v1 "), on_failure = failed)]
async fn own_decoder(order: OrderPlaced) {
    drop(order);
}

async fn failed(_: RecordEnd) -> Result<(), HandlerError> {
    Err("it fails itself".into())
}

fn text(order: &OrderPlaced) -> String {
    order.order_id.to_lowercase()
}

#[sqs_once::handler(key = order.order_id, fingerprint = text, missing_key = retry)]
async fn fingerprint_by_function(order: OrderPlaced) {
    drop(order);
}

#[sqs_once::handler(key = order.order_id, payload_mismatch = ignore)]
async fn no_fingerprint(order: OrderPlaced) {
    drop(order);
}

#[sqs_once::handler(key = order.order_id)]
async fn state_of_an_argument(order: OrderPlaced, State(app): State<App>, _: Name) {
    drop((order, app));
}

#[sqs_once::handler(key = order.order_id)]
async fn state_by_its_path(order: OrderPlaced, app: sqs_once::State<Arc<App>>) {
    drop((order, app));
}

#[sqs_once::handler(key = order.order_id, state = App)]
async fn state_of_an_option(order: OrderPlaced, name: Name) {
    drop((order, name.0));
}

#[sqs_once::handler(key = order.order_id, claim = first)]
async fn claimed_first(order: OrderPlaced) -> Result<Writes, HandlerError> {
    drop(order);
    Ok(Writes::new())
}

#[sqs_once::handler(key = order.order_id, mode = transactional)]
async fn transactional(order: OrderPlaced) -> Writes {
    drop(order);
    Writes::new()
}

/// Values that another macro fills in.
macro_rules! filled_in {
    ($name:ident, $longest:expr, $backoff:expr, $policy:expr, $envelope:expr, $hook:path) => {
        #[sqs_once::handler(
                                                                    key = order.order_id,
                                                                    record_timeout = $longest,
                                                                    in_progress = wait($longest),
                                                                    backoff = $backoff,
                                                                    fifo = $policy,
                                                                    envelope = $envelope,
                                                                    on_success = $hook
                                                                )]
        async fn $name(order: OrderPlaced) {
            drop(order);
        }
    };
}

filled_in!(
    by_macro,
    "5s",
    exponential("2s", "15m"),
    strict,
    (Sns, EventBridge),
    hooks::reply
);

pub(super) fn run() {
    let _: Consumer<Ready<()>> = by_macro::consumer();
    let _: Consumer<Ready<()>> = all::consumer();
    let _: Consumer<Ready<()>> = bytes::consumer();
    let _: Consumer<Ready<()>> = own_decoder::consumer();
    let _: Consumer<Ready<()>> = any_order::consumer();
    let _: Consumer<Ready<()>> = claimed_first::consumer();
    let _: Consumer<Ready<()>> = transactional::consumer();
    let _: Consumer<Ready<()>> = destructured::consumer();
    let _: Consumer<Ready<()>> = fingerprint_by_function::consumer();
    let _: Consumer<Ready<()>> = no_fingerprint::consumer();
    let _: Consumer<Ready<App>> = state_of_an_argument::consumer();
    let _: Consumer<Ready<Arc<App>>> = state_by_its_path::consumer();
    let app = App { name: "app".into() };
    let _: Consumer = state_of_an_option::consumer().state(app);
}
