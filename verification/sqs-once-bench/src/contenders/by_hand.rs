//! Handwritten Rust: the SDK, one conditional write per claim and one per completion, with `$BENCH_CONCURRENCY` records
//! at a time.

mod sdk;

use std::env;
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use futures_util::stream::{self, StreamExt};
use lambda_runtime::{Error, LambdaEvent, service_fn};
use sqs_once_bench::contract::{self, Order, RETENTION, Work};

struct App {
    client: Client,
    table: String,
    concurrency: usize,
    work: Work,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let app = Arc::new(App {
        client: sdk::client().await,
        table: env::var(contract::TABLE)?,
        concurrency: env::var(contract::CONCURRENCY)?.parse()?,
        work: Work::from_env(),
    });
    lambda_runtime::run(service_fn(move |event| handle(Arc::clone(&app), event))).await
}

async fn handle(app: Arc<App>, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let deadline = event.context.deadline;
    let mut response = SqsBatchResponse::default();
    let failures: Vec<_> = stream::iter(event.payload.records)
        .map(
            async |record| match handle_record(&app, &record, deadline).await {
                Ok(()) => None,
                Err(_) => record.message_id,
            },
        )
        .buffer_unordered(app.concurrency)
        .filter_map(async |failure| failure)
        .collect()
        .await;
    for failure in failures {
        response.add_failure(failure);
    }
    Ok(response)
}

async fn handle_record(app: &App, record: &SqsMessage, deadline: u64) -> Result<(), Error> {
    let order: Order = serde_json::from_str(record.body.as_deref().unwrap_or_default())?;
    let now = contract::now_ms();
    let number = |number: u64| AttributeValue::N(number.to_string());
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let mut owner = [0; 16];
    getrandom::fill(&mut owner)?;
    let owner = format!("{:032x}", u128::from_ne_bytes(owner));
    let claimed = app
        .client
        .put_item()
        .table_name(&app.table)
        .item("id", text(&order.order_id))
        .item("status", text("INPROGRESS"))
        .item("in_progress_expiration", number(deadline))
        .item(
            "expiration",
            number((now + RETENTION.as_millis() as u64) / 1000),
        )
        .item("owner", text(&owner))
        .condition_expression(
            "attribute_not_exists(#id) OR #expiration < :now_secs \
             OR (#status = :inprogress AND #lease < :now)",
        )
        .expression_attribute_names("#id", "id")
        .expression_attribute_names("#status", "status")
        .expression_attribute_names("#lease", "in_progress_expiration")
        .expression_attribute_names("#expiration", "expiration")
        .expression_attribute_values(":inprogress", text("INPROGRESS"))
        .expression_attribute_values(":now", number(now))
        .expression_attribute_values(":now_secs", number(now / 1000))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .send()
        .await;
    if let Err(error) = claimed {
        return match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refusal))
                if is_completed(refusal.item().and_then(|item| item.get("status"))) =>
            {
                Ok(())
            }
            _ => Err(error.into()),
        };
    }
    app.work.run().await;
    app.client
        .update_item()
        .table_name(&app.table)
        .key("id", text(&order.order_id))
        .update_expression("SET #status = :completed, #expiration = :expiration")
        .condition_expression("#owner = :owner")
        .expression_attribute_names("#status", "status")
        .expression_attribute_names("#expiration", "expiration")
        .expression_attribute_names("#owner", "owner")
        .expression_attribute_values(":completed", text("COMPLETED"))
        .expression_attribute_values(
            ":expiration",
            number((contract::now_ms() + RETENTION.as_millis() as u64) / 1000),
        )
        .expression_attribute_values(":owner", text(&owner))
        .send()
        .await?;
    Ok(())
}

fn is_completed(status: Option<&AttributeValue>) -> bool {
    status
        .and_then(|status| status.as_s().ok())
        .is_some_and(|status| status == "COMPLETED")
}
