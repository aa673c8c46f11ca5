#![allow(unused_variables)]

use std::rc::Rc;

use serde::Deserialize;
use sqs_once::body::{Sns, Text};
use sqs_once::extract::Message;
use sqs_once::hook::RecordEnd;
use sqs_once::HandlerError;

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

fn length(message: &Message) -> usize {
    message.id().len()
}

#[sqs_once::handler(key = order.order_id, correlation_id = length)]
async fn correlation_by_a_number(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, correlation_id = "request-id")]
async fn correlation_by_a_text(order: OrderPlaced) {}

fn not_async(end: RecordEnd) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, on_success = not_async)]
async fn hook_that_is_not_async(order: OrderPlaced) {}

async fn of_the_payload(order: OrderPlaced) -> Result<(), HandlerError> {
    Ok(())
}

#[sqs_once::handler(key = order.order_id, on_duplicate = of_the_payload)]
async fn hook_of_the_payload(order: OrderPlaced) {}

async fn without_a_result(end: RecordEnd) {}

#[sqs_once::handler(key = order.order_id, on_failure = without_a_result)]
async fn hook_without_a_result(order: OrderPlaced) {}

async fn not_send(end: RecordEnd) -> Result<(), HandlerError> {
    let shared = Rc::new(end);
    std::future::ready(()).await;
    drop(shared);
    Ok(())
}

#[sqs_once::handler(key = order.order_id, on_success = not_send)]
async fn hook_that_is_not_send(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, on_success = "reply")]
async fn quoted_hook(order: OrderPlaced) {}

fn main() {
    let _ = decoder_of_another_payload::consumer();
}
