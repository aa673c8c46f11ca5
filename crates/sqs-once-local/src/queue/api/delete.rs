//! `DeleteMessage`, `DeleteMessageBatch` and `PurgeQueue`.

use super::parameters::{queue, read, required};
use super::{Answer, Api, batch as batches};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::SystemTime;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    receipt_handle: Option<String>,
}

pub(super) fn one(api: &Api, request: &Value) -> Answer {
    delete(api, &queue(request)?, &read(request)?)
}

pub(super) fn batch(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    let entries = batches::entries(request)?;
    api.queues().queue(&queue)?;
    batches::each(entries, |parameters| delete(api, &queue, &parameters))
}

fn delete(api: &Api, queue: &str, parameters: &Parameters) -> Answer {
    let handle = required("ReceiptHandle", &parameters.receipt_handle)?;
    api.queues().delete(queue, handle, SystemTime::now())?;
    Ok(json!({}))
}

/// SQS allows one purge a minute. This queue has no such limit.
pub(super) fn purge(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    api.queues().purge(&queue, SystemTime::now())?;
    Ok(json!({}))
}
