//! Charges each order at a payments service that accepts idempotency keys, such as Stripe.

use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};
use sqs_once::{Consumer, Error, HandlerError, IdempotencyToken, ResultExt, State};

#[derive(Deserialize, Serialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
    currency: String,
}

#[derive(Clone)]
struct Payments {
    client: Client,
    url: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "charges")]
async fn charge(
    order: OrderPlaced,
    token: IdempotencyToken,
    State(payments): State<Payments>,
) -> Result<(), HandlerError> {
    let request = payments.client.post(format!("{}/charges", payments.url));
    // The token is the same in every attempt, so the service charges once even if this process dies after the charge.
    let request = request.header("Idempotency-Key", token.as_str());
    let answer = request.json(&order).send().await?;
    match (answer.status(), answer.error_for_status()) {
        (_, Ok(_)) => Ok(()),
        // Declined, or wrong: no retry helps.
        (StatusCode::BAD_REQUEST | StatusCode::PAYMENT_REQUIRED, Err(error)) => {
            Err(error).terminal()
        }
        (_, Err(error)) => Err(error.into()),
    }
}

/// The time limit is for one request. The next delivery repeats it with the same token.
fn consumer(url: String) -> Result<Consumer, Error> {
    let client = Client::builder().timeout(Duration::from_secs(5)).build()?;
    Ok(charge::consumer(Payments { client, url }))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    // reqwest has no default TLS library here. This one is already part of the function, for DynamoDB.
    let _ = rustls::crypto::ring::default_provider().install_default();
    sqs_once::run(consumer(std::env::var("PAYMENTS_URL")?)?).await
}

#[cfg(test)]
mod tests;
