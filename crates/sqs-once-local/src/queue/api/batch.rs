//! Batches: entries with an id each, which succeed or fail one by one.

use super::parameters::{optional, queue, read, text};
use super::refused::Refused;
use super::{Answer, Api};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MOST_ENTRIES: usize = 10;

/// The id that identifies an entry in the answer, and the entry's parameters.
pub(super) type Entry<T> = (String, T);

fn entries<T: DeserializeOwned>(request: &Value) -> Result<Vec<Entry<T>>, Refused> {
    let values: Vec<Value> = optional(request, "Entries")?.unwrap_or_default();
    if values.is_empty() {
        let text = "There should be at least one entry in the request.";
        return Err(Refused::new("EmptyBatchRequest", text));
    }
    if values.len() > MOST_ENTRIES {
        let text = format!(
            "Maximum number of entries per request are {MOST_ENTRIES}. You have sent {}.",
            values.len()
        );
        return Err(Refused::new("TooManyEntriesInBatchRequest", text));
    }
    let mut entries: Vec<Entry<T>> = Vec::new();
    for value in &values {
        let id = text(value, "Id")?;
        if !is_id(&id) {
            let text = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be \
                        at most 80 letters long.";
            return Err(Refused::new("InvalidBatchEntryId", text));
        }
        if entries.iter().any(|(other, _)| *other == id) {
            let text = format!("Id {id} repeated.");
            return Err(Refused::new("BatchEntryIdsNotDistinct", text));
        }
        entries.push((id, read(value)?));
    }
    Ok(entries)
}

fn is_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    id.len() <= 80 && id.bytes().all(allowed)
}

/// Processes each entry of a request that passes the check, and reports the results one by one.
pub(super) fn each<T: DeserializeOwned>(
    api: &Api,
    request: &Value,
    check: impl FnOnce(&[Entry<T>]) -> Result<(), Refused>,
    one: impl Fn(&Api, &str, T) -> Answer,
) -> Answer {
    let queue = queue(request)?;
    let entries = entries(request)?;
    api.queues().queue(&queue)?;
    check(&entries)?;
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for (id, parameters) in entries {
        match one(api, &queue, parameters) {
            Ok(mut answer) => {
                answer["Id"] = id.into();
                successful.push(answer);
            }
            Err(refused) => failed.push(refused.entry(&id)),
        }
    }
    let mut answer = json!({});
    for (name, list) in [("Successful", successful), ("Failed", failed)] {
        if !list.is_empty() {
            answer[name] = list.into();
        }
    }
    Ok(answer)
}
