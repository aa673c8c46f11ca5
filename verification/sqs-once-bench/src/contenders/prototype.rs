//! The prototype: batched claims and completions through the SDK, without the framework.

mod batched;
mod sdk;

use std::collections::{HashMap, HashSet};
use std::env;
use std::sync::Arc;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementErrorCodeEnum, BatchStatementRequest, KeysAndAttributes,
    ReturnValuesOnConditionCheckFailure,
};
use batched::{Error, Message, Outcome, Parameter, Wire};
use lambda_runtime::{LambdaEvent, service_fn};
use sqs_once_bench::contract::{self, Work};

struct Sdk {
    client: Client,
    table: String,
    claims_in_flight: usize,
    work: Work,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let sdk = Arc::new(Sdk {
        client: sdk::client().await,
        table: env::var(contract::TABLE)?,
        claims_in_flight: batched::claims_in_flight()?,
        work: Work::from_env(),
    });
    // Opens the connection during init, so the first batch does not wait for it.
    sdk.completed(&[batched::NO_ITEM.to_owned()]).await?;
    lambda_runtime::run(service_fn(move |event| handle(Arc::clone(&sdk), event))).await
}

async fn handle(sdk: Arc<Sdk>, event: LambdaEvent<SqsEvent>) -> Result<SqsBatchResponse, Error> {
    let messages = event.payload.records.into_iter().map(|record| Message {
        id: record.message_id.unwrap_or_default(),
        body: record.body.unwrap_or_default(),
    });
    let messages = messages.collect();
    let deadline = event.context.deadline;
    let failures = batched::process(
        &*sdk,
        &sdk.table,
        messages,
        deadline,
        sdk.claims_in_flight,
        sdk.work,
    )
    .await?;
    let mut response = SqsBatchResponse::default();
    for failure in failures {
        response.add_failure(failure);
    }
    Ok(response)
}

impl Wire for Sdk {
    async fn execute(
        &self,
        statement: &str,
        parameters: Vec<Vec<Parameter>>,
    ) -> Result<Vec<Outcome>, Error> {
        let statements = parameters.into_iter().map(|parameters| {
            let parameters = parameters.into_iter().map(|parameter| match parameter {
                Parameter::S(text) => AttributeValue::S(text),
                Parameter::N(number) => AttributeValue::N(number.to_string()),
            });
            BatchStatementRequest::builder()
                .statement(statement)
                .set_parameters(Some(parameters.collect()))
                .return_values_on_condition_check_failure(
                    ReturnValuesOnConditionCheckFailure::AllOld,
                )
                .build()
        });
        let statements = statements.collect::<Result<_, _>>()?;
        let request = self.client.batch_execute_statement();
        let answer = request.set_statements(Some(statements)).send().await?;
        let outcomes = answer
            .responses()
            .iter()
            .map(|response| match response.error() {
                None => Outcome::Done,
                Some(error)
                    if error.code() == Some(&BatchStatementErrorCodeEnum::DuplicateItem) =>
                {
                    Outcome::Duplicate
                }
                Some(_) => Outcome::Refused,
            });
        Ok(outcomes.collect())
    }

    async fn completed(&self, ids: &[String]) -> Result<HashSet<String>, Error> {
        let key = |id: &String| HashMap::from([("id".to_owned(), AttributeValue::S(id.clone()))]);
        let keys = KeysAndAttributes::builder()
            .set_keys(Some(ids.iter().map(key).collect()))
            .consistent_read(true)
            .build()?;
        let answer = self
            .client
            .batch_get_item()
            .request_items(&self.table, keys)
            .send()
            .await?;
        let items = answer
            .responses()
            .and_then(|tables| tables.get(&self.table));
        let text = |item: &HashMap<String, AttributeValue>, name| {
            item.get(name)
                .and_then(|value: &AttributeValue| value.as_s().ok().cloned())
        };
        let items = items.into_iter().flatten();
        let completed = items.filter(|item| text(item, "status").as_deref() == Some("COMPLETED"));
        Ok(completed.filter_map(|item| text(item, "id")).collect())
    }
}
