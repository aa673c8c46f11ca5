#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::body::{Sns, Text};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, decode = Text)]
async fn decoder_of_another_payload(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decode = "Text")]
async fn quoted_decoder(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decode)]
async fn no_decoder(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, decoder = Text)]
async fn misspelt_decode(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelope = (Sns, OrderPlaced { order_id: String::new() }))]
async fn no_envelope(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelope = "SNS and EventBridge")]
async fn quoted_envelopes(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, envelope = Sns, envelope = Sns)]
async fn two_envelopes(order: OrderPlaced) {}

fn main() {
    let _ = decoder_of_another_payload::consumer();
}
