//! Ships orders, with three layers around the handler.

mod around;

use serde::Deserialize;
use sqs_once::{Consumer, Error};

use around::{authorised, limited, timed};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "shipments")]
async fn ship(order: OrderPlaced) {
    tracing::info!(order = order.order_id, "shipped"); // your effect
}

fn consumer() -> Consumer {
    ship::consumer()
        .layer(timed)
        .layer(authorised)
        .layer(limited)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(consumer()).await
}

#[cfg(test)]
mod tests;
