//! `GetItem` and `BatchGetItem`.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::answer::{Capacity, Done, done, is_asked_for, read};
use crate::error::ApiError;
use crate::tables::Tables;
use crate::units::Units;
use crate::value::{Item, item_size};

/// The most keys of a request, and the most bytes of its answer: keys beyond these are not processed.
const MOST_KEYS: usize = 100;
const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Get {
    table_name: String,
    key: Item,
    #[serde(default)]
    consistent_read: bool,
    return_consumed_capacity: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Found<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    item: Option<&'a Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Capacity<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchGet {
    request_items: BTreeMap<String, Keys>,
    return_consumed_capacity: Option<String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    keys: Vec<Item>,
    #[serde(default)]
    consistent_read: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllFound<'a> {
    responses: BTreeMap<&'a str, Vec<Item>>,
    unprocessed_keys: BTreeMap<&'a str, Keys>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Vec<Capacity<'a>>>,
}

impl Tables {
    pub(crate) fn get(&mut self, body: &[u8]) -> Result<Done, ApiError> {
        let request: Get = read(body)?;
        let table = self.table(&request.table_name)?;
        let item = table.items.get(&table.schema.of_key(&request.key)?);
        let units = Units::of_read(item.map_or(0, item_size), request.consistent_read);
        let asked = request.return_consumed_capacity.as_deref();
        let found = Found {
            item,
            consumed_capacity: Capacity::asked_for(asked, &request.table_name, units),
        };
        done(&found, units)
    }

    pub(crate) fn batch_get(&mut self, body: &[u8]) -> Result<Done, ApiError> {
        let request: BatchGet = read(body)?;
        let tables = request.request_items.iter();
        let keys: usize = tables.map(|(_, keys)| keys.keys.len()).sum();
        let is_empty = request
            .request_items
            .values()
            .any(|keys| keys.keys.is_empty());
        let is_twice = |keys: &Keys| {
            let distinct: BTreeSet<_> = keys.keys.iter().collect();
            distinct.len() < keys.keys.len()
        };
        if request.request_items.values().any(is_twice) {
            return Err(ApiError::validation(
                "Provided list of item keys contains duplicates",
            ));
        }
        if is_empty || !(1..=MOST_KEYS).contains(&keys) {
            return Err(ApiError::validation("Too many items requested, or none"));
        }
        let mut answer = AllFound {
            responses: BTreeMap::new(),
            unprocessed_keys: BTreeMap::new(),
            consumed_capacity: None,
        };
        let mut consumed = Vec::new();
        let (mut all, mut bytes) = (Units::default(), 0);
        for (name, wanted) in &request.request_items {
            let table = self.table(name)?;

            let mut units = Units::default();
            let mut unprocessed = Vec::new();
            let found = answer.responses.entry(name.as_str()).or_default();
            for key in &wanted.keys {
                let values = table.schema.of_key(key)?;
                let item = table.items.get(&values);
                let size = item.map_or(0, item_size);
                bytes += size;
                if bytes > LARGEST_ANSWER {
                    unprocessed.push(key.clone());
                    continue;
                }
                units = units + Units::of_read(size, wanted.consistent_read);
                found.extend(item.cloned());
            }
            if !unprocessed.is_empty() {
                let keys = Keys {
                    keys: unprocessed,
                    consistent_read: wanted.consistent_read,
                };
                answer.unprocessed_keys.insert(name.as_str(), keys);
            }
            all = all + units;
            consumed.push(Capacity::of(name, units));
        }
        if is_asked_for(request.return_consumed_capacity.as_deref()) {
            answer.consumed_capacity = Some(consumed);
        }
        done(&answer, all)
    }
}
