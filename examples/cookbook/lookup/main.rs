//! Ships each order once. A message contains only the order's id, and a decoder fetches the order.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use sqs_once::body::AsyncDecode;
use sqs_once::extract::Message;
use sqs_once::{Error, Handler, HandlerError, ResultExt};

#[derive(Deserialize)]
struct OrderPlaced {
    order_id: String,
}

#[derive(Deserialize)]
struct Order {
    order_id: String,
    address: String,
}

struct Orders {
    client: Client,
    url: String,
}

/// It runs before the key is claimed, also for duplicates. At most `concurrency` requests run at once.
impl AsyncDecode<Order> for Orders {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        let OrderPlaced { order_id } = serde_json::from_str(body).terminal()?;
        let order = self.client.get(format!("{}/orders/{order_id}", self.url));
        let answer = order.send().await?; // `?`: SQS delivers the message again
        match answer.status() {
            StatusCode::NOT_FOUND => Err("the order does not exist").terminal(),
            _ => Ok(answer.error_for_status()?.json().await?),
        }
    }
}

async fn ship(order: Order) {
    tracing::info!(length = order.address.len(), "shipped"); // your effect
}

fn handler(url: String) -> Result<Handler, Error> {
    let client = Client::builder().timeout(Duration::from_secs(5)).build()?;
    Ok(Handler::decode(Orders { client, url })
        .key(|order: &Order| order.order_id.clone())
        .call(ship)
        .namespace("shipments"))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    sqs_once::run(handler(std::env::var("ORDERS_URL")?)?).await
}

#[cfg(test)]
mod tests;
