//! Batches: entries with an id each, which succeed or fail one by one.

use super::Answer;
use super::parameters::{read, required};
use super::refused::Refused;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const MOST_ENTRIES: usize = 10;

/// An entry of a batch and the id that identifies it in the answer.
pub(super) struct Entry<T> {
    pub(super) id: String,
    pub(super) parameters: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Named {
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch {
    entries: Option<Vec<Value>>,
}

/// The entries of a request.
pub(super) fn entries<T: DeserializeOwned>(request: &Value) -> Result<Vec<Entry<T>>, Refused> {
    let batch: Batch = read(request)?;
    let values = batch.entries.unwrap_or_default();
    if values.is_empty() {
        let said = "There should be at least one entry in the request.";
        return Err(Refused::new("EmptyBatchRequest", said));
    }
    if values.len() > MOST_ENTRIES {
        let said = format!(
            "Maximum number of entries per request are {MOST_ENTRIES}. You have sent {}.",
            values.len()
        );
        return Err(Refused::new("TooManyEntriesInBatchRequest", said));
    }
    let mut entries: Vec<Entry<T>> = Vec::new();
    for value in &values {
        let named: Named = read(value)?;
        let id = required("Id", &named.id)?;
        if !is_id(id) {
            let said = "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be \
                        at most 80 letters long.";
            return Err(Refused::new("InvalidBatchEntryId", said));
        }
        if entries.iter().any(|entry| entry.id == id) {
            let said = format!("Id {id} repeated.");
            return Err(Refused::new("BatchEntryIdsNotDistinct", said));
        }
        entries.push(Entry {
            id: id.to_owned(),
            parameters: read(value)?,
        });
    }
    Ok(entries)
}

fn is_id(id: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    id.len() <= 80 && id.bytes().all(allowed)
}

/// Processes each entry and reports the results one by one.
pub(super) fn each<T>(entries: Vec<Entry<T>>, mut one: impl FnMut(T) -> Answer) -> Answer {
    let (mut successful, mut failed) = (Vec::new(), Vec::new());
    for Entry { id, parameters } in entries {
        match one(parameters) {
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
