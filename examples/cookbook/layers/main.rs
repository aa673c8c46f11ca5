//! Ships orders, with three layers around the handler.

mod around;

use serde::Deserialize;
use sqs_once::{Error, Handler};

use around::{authorised, limited, timed};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "shipments")]
async fn ship(order: OrderPlaced) {
    tracing::info!(order = order.order_id, "shipped"); // your effect
}

fn handler() -> Handler {
    ship::handler()
        .layer(timed)
        .layer(authorised)
        .layer(limited)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    sqs_once::run(handler()).await
}

#[cfg(test)]
mod tests;
