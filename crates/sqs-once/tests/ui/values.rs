#![allow(unused_mut, unused_variables)]

use serde::Deserialize;
use sqs_once::body::{Sns, Text};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, mode = exactly_once, namespace = "test")]
async fn unsupported(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, mode = record_afterwards, namespace = "test")]
async fn misspelt(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, mode = "record_after", namespace = "test")]
async fn quoted(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, mode = "fast", namespace = "test")]
async fn quoted_unknown(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, fingerprint = 7, namespace = "test")]
async fn constant_fingerprint(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "pay#ments")]
async fn hash(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = " ")]
async fn blank(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, namespace = "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn")]
async fn too_long(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decode = Text, namespace = "test")]
async fn decoder_of_another_payload(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decode = "Text", namespace = "test")]
async fn quoted_decoder(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decode, namespace = "test")]
async fn no_decoder(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelope = (Sns, OrderPlaced { order_id: String::new() }), namespace = "test")]
async fn no_envelope(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelope = "SNS and EventBridge", namespace = "test")]
async fn quoted_envelopes(order: OrderPlaced) {}

fn main() {}
