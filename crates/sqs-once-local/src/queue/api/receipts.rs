//! `DeleteMessage`, `ChangeMessageVisibility`, their batches, and `PurgeQueue`.

use super::parameters::{required, seconds};
use super::refused::Refused;
use super::{Answer, Api};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::time::SystemTime;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Parameters {
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

pub(super) fn delete(api: &Api, queue: &str, parameters: Parameters) -> Answer {
    let handle = required("ReceiptHandle", &parameters.receipt_handle)?;
    api.queues().delete(queue, handle, SystemTime::now())?;
    Ok(json!({}))
}

pub(super) fn change_visibility(api: &Api, queue: &str, parameters: Parameters) -> Answer {
    let handle = required("ReceiptHandle", &parameters.receipt_handle)?;
    let name = "VisibilityTimeout";
    let timeout = seconds(name, parameters.visibility_timeout, 0..=43_200)?;
    let timeout = timeout.ok_or_else(|| Refused::missing(name))?;
    let mut queues = api.queues();
    queues.change_visibility(queue, handle, timeout, SystemTime::now())?;
    Ok(json!({}))
}

/// SQS allows one purge a minute. This queue has no such limit.
pub(super) fn purge(api: &Api, queue: &str, _: IgnoredAny) -> Answer {
    api.queues().purge(queue, SystemTime::now())?;
    Ok(json!({}))
}
