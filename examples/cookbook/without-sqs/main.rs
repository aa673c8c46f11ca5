//! A function that SNS calls directly, without a queue. It registers each customer once.
//!
//! SNS can call a function twice for one message. So can EventBridge, a schedule, and Lambda for an asynchronous call.

use aws_lambda_events::sns::SnsEvent;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;
use sqs_once::{HandlerError, Idempotency, IdempotencyToken};

#[derive(Deserialize)]
struct CustomerSignedUp {
    customer_id: String,
    email: String,
}

async fn register(
    customer: &CustomerSignedUp,
    token: IdempotencyToken,
) -> Result<(), HandlerError> {
    if customer.email.is_empty() {
        return Err("there is no email address".into());
    }
    tracing::info!(customer = customer.customer_id, %token, "registered"); // your effect
    Ok(())
}

/// On an error Lambda calls the function twice more, and then sends the event to its failure destination.
async fn handle(idempotency: &Idempotency, event: LambdaEvent<SnsEvent>) -> Result<(), Error> {
    let invocation = idempotency.until(event.context.deadline());
    for record in event.payload.records {
        let customer: CustomerSignedUp = serde_json::from_str(&record.sns.message)?;
        let work = |token| register(&customer, token);
        invocation
            .run_with_token(&customer.customer_id, work)
            .await?;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    lambda_runtime::tracing::init_default_subscriber();
    let idempotency = Idempotency::new("customers");
    idempotency.init().await?; // better not to start than to fail every event
    lambda_runtime::run(service_fn(|event| handle(&idempotency, event))).await
}

#[cfg(test)]
mod tests;
