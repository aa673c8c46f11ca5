//! `ChangeMessageVisibility` and `ChangeMessageVisibilityBatch`.

use super::parameters::{queue, read, required, seconds};
use super::refused::Refused;
use super::{Answer, Api, batch as batches};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::SystemTime;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Parameters {
    receipt_handle: Option<String>,
    visibility_timeout: Option<i64>,
}

pub(super) fn one(api: &Api, request: &Value) -> Answer {
    change(api, &queue(request)?, &read(request)?)
}

pub(super) fn batch(api: &Api, request: &Value) -> Answer {
    let queue = queue(request)?;
    let entries = batches::entries(request)?;
    api.queues().queue(&queue)?;
    batches::each(entries, |parameters| change(api, &queue, &parameters))
}

fn change(api: &Api, queue: &str, parameters: &Parameters) -> Answer {
    let handle = required("ReceiptHandle", &parameters.receipt_handle)?;
    let name = "VisibilityTimeout";
    let timeout = seconds(name, parameters.visibility_timeout, 0..=43_200)?;
    let timeout = timeout.ok_or_else(|| Refused::missing(name))?;
    let now = SystemTime::now();
    api.queues()
        .change_visibility(queue, handle, timeout, now)?;
    Ok(json!({}))
}
