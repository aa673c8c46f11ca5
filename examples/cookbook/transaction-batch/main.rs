//! Keeps the entries of a ledger, each exactly once: the entries of a batch commit together, each with its key.

use serde::Deserialize;
use sqs_once::sdk::dynamodb::types::{AttributeValue, Put};
use sqs_once::{Batch, BatchWrites, Error, HandlerError, ResultExt, State, Writes};

#[derive(Deserialize)]
struct Entry {
    entry_id: String,
    account: String,
    cents: i64,
}

/// The name of the table.
#[derive(Clone)]
struct Ledger(String);

/// The handler computes the writes. The consumer sends those of many messages in one request, and an entry that
/// DynamoDB refuses does not stop the others.
#[sqs_once::batch_handler(key = entry.entry_id, namespace = "ledger")]
async fn keep(
    entries: Batch<Entry>,
    State(ledger): State<Ledger>,
) -> Result<BatchWrites, HandlerError> {
    let mut writes = entries.writes();
    for entry in &entries {
        writes.ended(entry, put(entry.payload(), &ledger));
    }
    Ok(writes)
}

fn put(entry: &Entry, ledger: &Ledger) -> Result<Writes, HandlerError> {
    if entry.cents == 0 {
        return Err("an entry of nothing").terminal();
    }
    let put = Put::builder()
        .table_name(&ledger.0)
        .item("entry_id", AttributeValue::S(entry.entry_id.clone()))
        .item("account", AttributeValue::S(entry.account.clone()))
        .item("cents", AttributeValue::N(entry.cents.to_string()))
        .condition_expression("attribute_not_exists(entry_id)")
        .build()?;
    Ok(Writes::new().put_item(put))
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let ledger = Ledger(std::env::var("LEDGER_TABLE")?);
    sqs_once::run(keep::consumer(ledger)).await
}

#[cfg(test)]
mod tests;
