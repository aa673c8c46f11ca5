//! Charges each order at a payments service. While that service is down, the orders wait in the queue.

use std::env::var;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use serde::{Deserialize, Serialize};
use sqs_once::policy::{Dependency, UnknownOutcome};
use sqs_once::{Error, Handler, HandlerError, IdempotencyToken, ResultExt, State};

#[derive(Deserialize, Serialize)]
struct OrderPlaced {
    order_id: String,
    amount_cents: u64,
}

#[derive(Clone)]
struct Payments(Client, String);

#[sqs_once::handler(key = order.order_id, namespace = "charges")]
async fn charge(
    order: OrderPlaced,
    token: IdempotencyToken,
    State(Payments(client, url)): State<Payments>,
) -> Result<(), HandlerError> {
    let request = client.post(format!("{url}/charges")).json(&order);
    let request = request.header("Idempotency-Key", token.as_str());
    match request.send().await?.error_for_status() {
        Ok(_) => Ok(()),
        Err(error) if error.status() == Some(StatusCode::PAYMENT_REQUIRED) => Err(error).terminal(),
        Err(error) => Err(error.into()),
    }
}

/// The service did not answer, or it answered that it can't work.
fn is_down(error: &reqwest::Error) -> bool {
    error.is_request() || error.status().is_some_and(|it| it.is_server_error())
}

fn handler(url: String, probe_seconds: u64) -> Result<Handler, Error> {
    let client = Client::builder().timeout(Duration::from_secs(5)).build()?;
    let service = Dependency::new("payments").unavailable_if(is_down);
    // The service forgets a token after a day. An older attempt is not repeated.
    let day = Duration::from_secs(24 * 60 * 60);
    Ok(charge::handler(Payments(client, url))
        .depends_on(service.probe_every(Duration::from_secs(probe_seconds)))
        .unknown_outcome(UnknownOutcome::dead_letter().token_valid_for(day)))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    // How long the breaker waits before one order tries the service again.
    let probe_seconds = var("PROBE_SECONDS").map_or(Ok(30), |seconds| seconds.parse())?;
    sqs_once::run(handler(var("PAYMENTS_URL")?, probe_seconds)?).await
}

#[cfg(test)]
mod tests;
