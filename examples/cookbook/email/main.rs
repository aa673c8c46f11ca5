//! Sends one email for each order, through a service that accepts idempotency keys, such as Resend.
//!
//! Without such keys, the email is sent again if this process dies between the email and its completion.

use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::json;
use sqs_once::{Error, HandlerError, IdempotencyToken, ResultExt, State};

#[derive(Deserialize)]
struct OrderShipped {
    order_id: String,
    email: String,
}

#[derive(Clone)]
struct Mail {
    client: Client,
    url: String,
    api_key: String,
}

#[sqs_once::handler(key = order.order_id, namespace = "shipped-emails")]
async fn tell(
    order: OrderShipped,
    token: IdempotencyToken,
    State(mail): State<Mail>,
) -> Result<(), HandlerError> {
    let text = format!("Order {} has left our warehouse.", order.order_id);
    let (from, subject) = ("shop@example.com", "Your order is on its way");
    let email = json!({ "from": from, "to": order.email, "subject": subject, "text": text });
    let request = mail.client.post(format!("{}/emails", mail.url));
    let request = request.bearer_auth(&mail.api_key).json(&email);
    let request = request.header("Idempotency-Key", token.as_str());
    let answer = request.send().await?;
    if answer.status() == StatusCode::UNPROCESSABLE_ENTITY {
        return Err("the service refused the email").terminal(); // such as one without an address
    }
    answer.error_for_status().map(drop).map_err(Into::into)
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mail = Mail {
        client: Client::new(),
        url: std::env::var("MAIL_URL")?,
        api_key: std::env::var("MAIL_API_KEY")?,
    };
    sqs_once::run(tell::consumer(mail)).await
}

#[cfg(test)]
mod tests;
