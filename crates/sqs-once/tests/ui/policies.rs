#![allow(unused_variables)]

use serde::Deserialize;

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, in_progress = wait)]
async fn wait_without_a_time(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, in_progress = wait("5s", "6s"))]
async fn wait_with_two_times(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, in_progress = wait("0s"))]
async fn wait_for_nothing(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, in_progress = wait(5s))]
async fn wait_unquoted(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, in_progress = return_queue)]
async fn misspelt_return(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, in_progress = "acknowledge")]
async fn acknowledge(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, fifo = ordered)]
async fn unknown_fifo(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, fifo = return_bach)]
async fn misspelt_fifo(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, record_timeout = "0s")]
async fn no_time(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, deadline_margin = "0ms")]
async fn no_margin(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, raise_on_total_failure = "true")]
async fn quoted_switch(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, raise_on_total_failure = 1)]
async fn number_for_a_switch(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, after_dead_letter = continue_group)]
async fn unknown_after_dead_letter(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, requests = singles)]
async fn unknown_requests(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = "2s")]
async fn one_backoff(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = exponential("2s"))]
async fn no_ceiling(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = linear("2s", "15m"))]
async fn linear(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = exponential("0s", "15m"))]
async fn no_floor(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = exponential("15m", "2s"))]
async fn upside_down(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff = exponential("2s", "15 min"))]
async fn no_duration(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, cache = 0)]
async fn no_cache(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, cache = (1000, 60))]
async fn cache_without_a_unit(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, cache = (1000, "0s"))]
async fn cache_for_no_time(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, cache = (1000,))]
async fn cache_of_one_part(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, readable_keys = yes)]
async fn no_switch(order: OrderPlaced) {}

#[sqs_once::handler(key = order.order_id, backoff, in_progress)]
async fn no_values(order: OrderPlaced) {}

fn main() {
    let _ = wait_without_a_time::consumer();
}
