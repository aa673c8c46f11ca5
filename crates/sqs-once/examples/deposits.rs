//! A function that EventBridge invokes: credits every deposit to the balance of its account, once.
//!
//! EventBridge may invoke a function twice for one event. Here the balance changes in the transaction that completes
//! the deposit's key. An event is `{"detail": {"deposit_id": "d-1001", "account": "a-7", "cents": 1299}}` and whatever
//! else EventBridge puts there.

use lambda_runtime::{Error, LambdaEvent, service_fn, tracing};
use serde::{Deserialize, Serialize};
use sqs_once::sdk::dynamodb::types::{AttributeValue, Update};
use sqs_once::{HandlerError, Idempotency, Writes};

/// The part of EventBridge's event that matters here.
#[derive(Deserialize)]
struct Event {
    detail: Deposited,
}

#[derive(Deserialize)]
struct Deposited {
    deposit_id: String,
    account: String,
    cents: u64,
}

#[derive(Serialize, Deserialize)]
struct Receipt {
    deposit_id: String,
    cents: u64,
}

/// Computes the effect, which commits together with the receipt.
async fn credit(deposit: &Deposited) -> Result<(Writes, Receipt), HandlerError> {
    let balance = Update::builder()
        .table_name("balances")
        .key("account", AttributeValue::S(deposit.account.clone()))
        .update_expression("ADD cents :cents")
        .expression_attribute_values(":cents", AttributeValue::N(deposit.cents.to_string()))
        .build()?;
    let receipt = Receipt {
        deposit_id: deposit.deposit_id.clone(),
        cents: deposit.cents,
    };
    Ok((Writes::new().update(balance), receipt))
}

/// Answers with the deposit's receipt, whenever it was credited. On an error Lambda invokes the function again.
async fn handle(
    idempotency: &Idempotency,
    event: LambdaEvent<Event>,
) -> Result<Option<Receipt>, Error> {
    let deposit = event.payload.detail;
    let receipt = idempotency
        .until(event.context.deadline())
        .run(&deposit.deposit_id, || credit(&deposit))
        .await?;
    Ok(receipt.into_value())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    tracing::init_default_subscriber();
    let idempotency = Idempotency::new("deposits");
    idempotency.init().await?; // better not to start than to fail every event
    lambda_runtime::run(service_fn(|event| handle(&idempotency, event))).await
}
