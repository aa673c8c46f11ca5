//! DynamoDB's tables in memory, as far as the contenders use them.
//!
//! The operations are `PutItem`, `UpdateItem`, `DeleteItem`, `BatchGetItem`, and `BatchExecuteStatement` with the PartiQL
//! statements `INSERT` and `UPDATE`. Reads are consistent. Values are of type S or N, and every table has the key `id`, of type S.
//! Any other request is refused with a `ValidationException`.
//!
//! dynoxide, the DynamoDB of the simulation and of `cargo sqs-once`, would be part of what the benchmark measures. 25
//! `INSERT` statements take 0.9 to 1.2 ms of CPU there, and 0.1 ms here (release build, one core). A batch of 100 records
//! sends four such requests at once, and an answer is due after 2 ms. dynoxide also reports no units of refused writes.

mod batch;
mod error;
mod expression;
mod parsed;
mod units;
mod value;
mod write;

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use batch::Statement;
use error::Refusal;
use expression::{Condition, Update};
use parsed::Cache;
use value::item_size;

pub use units::Units;
pub(crate) use value::{Item, Value};

/// Any number of tables. The first request that names a table creates it.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: HashMap<String, Table>,
    conditions: Cache<Condition>,
    updates: Cache<Update>,
    statements: Cache<Statement>,
}

type Table = HashMap<String, Item>;

pub(crate) struct Answer {
    /// The HTTP status: 200, or 400 for a refusal.
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The number of statements, if it was a batch of them.
    pub(crate) statements: usize,
    pub(crate) units: Units,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchGet {
    request_items: BTreeMap<String, Keys>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Keys {
    keys: Vec<Item>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct AllFound<'a> {
    responses: BTreeMap<&'a str, Vec<Item>>,
    unprocessed_keys: Item,
}

impl Tables {
    /// Carries out one request: `operation` is its name, such as `PutItem`, `body` its JSON.
    pub(crate) fn carry_out(&mut self, operation: &str, body: &[u8]) -> Answer {
        let done = match operation {
            "PutItem" | "UpdateItem" | "DeleteItem" => self.write(operation, body),
            "BatchGetItem" => self.batch_get(body),
            "BatchExecuteStatement" => self.batch_execute(body),
            _ => Err(Refusal::validation(format!("no operation {operation:?}"))),
        };
        done.unwrap_or_else(|refusal| Answer {
            status: 400,
            body: refusal.of_request().to_string(),
            statements: 0,
            units: refusal.units,
        })
    }

    pub(crate) fn items(&self, table: &str) -> impl Iterator<Item = &Item> {
        self.tables.get(table).into_iter().flat_map(HashMap::values)
    }

    pub(crate) fn clear(&mut self) {
        self.tables.values_mut().for_each(HashMap::clear);
    }

    fn table(&mut self, name: &str) -> &mut Table {
        self.tables.entry(name.to_owned()).or_default()
    }

    fn batch_get(&mut self, body: &[u8]) -> Result<Answer, Refusal> {
        const MOST_KEYS: usize = 100;
        let request: BatchGet = read(body)?;
        let keys: usize = request
            .request_items
            .values()
            .map(|one| one.keys.len())
            .sum();
        if !(1..=MOST_KEYS).contains(&keys) {
            return Err(Refusal::validation("Too many items requested, or none"));
        }
        let (mut responses, mut units) = (BTreeMap::new(), Units::default());
        for (name, wanted) in &request.request_items {
            let table = self.table(name);
            let found: &mut Vec<Item> = responses.entry(name.as_str()).or_default();
            for key in &wanted.keys {
                let item = table.get(id_of(key.get("id"))?);
                let size = item.map_or(0, item_size);
                units = units + Units::of_read(size);
                found.extend(item.cloned());
            }
        }
        let unprocessed_keys = Item::new();
        let answer = AllFound {
            responses,
            unprocessed_keys,
        };
        done(&answer, units)
    }
}

fn id_of(id: Option<&Value>) -> Result<&str, Refusal> {
    match id {
        Some(Value::S(id)) if !id.is_empty() => Ok(id),
        _ => Err(Refusal::validation("the key is `id`, of type S")),
    }
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::validation(error.to_string()))
}

fn done(answer: &impl Serialize, units: Units) -> Result<Answer, Refusal> {
    let body = serde_json::to_string(answer);
    Ok(Answer {
        status: 200,
        body: body.map_err(|error| Refusal::validation(error.to_string()))?,
        statements: 0,
        units,
    })
}
