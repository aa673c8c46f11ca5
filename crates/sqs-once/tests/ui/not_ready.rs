#![allow(unused_variables)]

use serde::Deserialize;
use sqs_once::{Error, Handler, State};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Clone)]
struct App;

#[sqs_once::handler(key = order.order_id, namespace = "test")]
async fn charge(order: OrderPlaced, State(app): State<App>) {}

async fn without_state() -> Result<(), Error> {
    sqs_once::run(charge::consumer()).await
}

async fn without_handler() -> Result<(), Error> {
    sqs_once::run(Handler::json::<OrderPlaced>()).await
}

fn main() {}
