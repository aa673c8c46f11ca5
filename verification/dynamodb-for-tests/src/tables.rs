//! Tables, and the way from a request to its answer.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use serde::Serialize;

use crate::answer::{Capacity, Done, done, read};
use crate::error::ApiError;
use crate::parsed::Cache;
use crate::schema::{ItemKey, Schema};
use crate::statement::Statement;
use crate::transaction::Tokens;
use crate::units::Units;
use crate::value::Item;
use crate::write::{Change, Expressions, Kind, Prepared, What, Write};

/// Any number of tables. What is asked of them happens at once and as a whole, in the order of the calls.
#[derive(Debug, Default)]
pub struct Tables {
    pub(crate) tables: HashMap<String, Table>,
    made_when_named: Option<Schema>,
    pub(crate) expressions: Expressions,
    pub(crate) statements: Cache<Statement>,
    pub(crate) tokens: Tokens,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) schema: Schema,
    pub(crate) items: BTreeMap<ItemKey, Item>,
}

/// What a request is answered with.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP status: 200, or 400 for a refusal.
    pub status: u16,
    /// The body, in DynamoDB's JSON.
    pub body: String,
    /// How many statements it took, where it was a batch of them.
    pub statements: usize,
    /// What it consumed.
    pub units: Units,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    attributes: Option<Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Capacity<'a>>,
}

impl Tables {
    /// No tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// No tables, but each that is named comes into being with this key.
    pub fn made_when_named(schema: Schema) -> Self {
        Self {
            made_when_named: Some(schema),
            ..Self::default()
        }
    }

    /// Makes a table, empty, in the place of any that has its name.
    pub fn create(&mut self, name: impl Into<String>, schema: Schema) {
        let items = BTreeMap::new();
        self.tables.insert(name.into(), Table { schema, items });
    }

    /// Carries out one request: `operation` is its name, such as `PutItem`, `body` its JSON.
    ///
    /// `now` counts from any moment, and tells for how long a transaction's `ClientRequestToken` is remembered: 10 min.
    pub fn carry_out(&mut self, operation: &str, body: &[u8], now: Duration) -> Answer {
        let done = match operation {
            "GetItem" => self.get(body),
            "PutItem" => self.write(Kind::Put, body),
            "UpdateItem" => self.write(Kind::Update, body),
            "DeleteItem" => self.write(Kind::Delete, body),
            "BatchGetItem" => self.batch_get(body),
            "BatchExecuteStatement" => self.batch_execute(body),
            "TransactWriteItems" => self.transact_write(body, now),
            _ => Err(ApiError::unknown_operation(operation)),
        };
        match done {
            Ok(done) => Answer {
                status: 200,
                body: done.body,
                statements: done.statements,
                units: done.units,
            },
            Err(error) => Answer {
                status: 400,
                body: error.of_request().to_string(),
                statements: 0,
                units: error.units,
            },
        }
    }

    /// The items of a table, by their keys. None where there is no such table.
    pub fn items(&self, table: &str) -> impl Iterator<Item = &Item> {
        let table = self.tables.get(table).into_iter();
        table.flat_map(|table| table.items.values())
    }

    /// Deletes all items of all tables, and forgets the tokens of their transactions. What was read of expressions is
    /// kept: tables that serve many tests one after the other are quicker so.
    pub fn clear(&mut self) {
        self.tables
            .values_mut()
            .for_each(|table| table.items.clear());
        self.tokens = Tokens::default();
    }

    pub(crate) fn table(&mut self, name: &str) -> Result<&mut Table, ApiError> {
        if let Some(schema) = &self.made_when_named
            && !self.tables.contains_key(name)
        {
            self.create(name, schema.clone());
        }
        self.tables.get_mut(name).ok_or_else(ApiError::no_table)
    }

    fn write(&mut self, kind: Kind, body: &[u8]) -> Result<Done, ApiError> {
        let write: Write = read(body)?;
        let prepared = self.expressions.prepare(kind, &write)?;
        let returned = write.return_values.as_deref().unwrap_or("NONE");
        let may_return = match kind {
            Kind::Update => ["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"].as_slice(),
            _ => &["NONE", "ALL_OLD"],
        };
        if !may_return.contains(&returned) {
            return Err(ApiError::validation("Return values set to invalid value"));
        }
        let table = self.table(&write.table_name)?;
        let change = prepared.decide(table)?;
        let units = change.units();
        let new = match (&change.what, returned) {
            (What::Put(item), "ALL_NEW" | "UPDATED_NEW") => Some(item.clone()),
            _ => None,
        };
        let old = table.apply(change);
        let attributes = match returned {
            "ALL_OLD" => old,
            "ALL_NEW" => new,
            "UPDATED_OLD" => old.and_then(|old| updated(&prepared, old)),
            "UPDATED_NEW" => new.and_then(|new| updated(&prepared, new)),
            _ => None,
        };
        let asked = write.return_consumed_capacity.as_deref();
        let written = Written {
            attributes,
            consumed_capacity: Capacity::asked_for(asked, &write.table_name, units),
        };
        done(&written, units)
    }
}

impl Table {
    /// Changes the item, and returns what it was.
    pub(crate) fn apply(&mut self, change: Change) -> Option<Item> {
        match change.what {
            What::Put(item) => self.items.insert(change.key, item),
            What::Delete => self.items.remove(&change.key),
            What::Nothing => None,
        }
    }
}

/// Of an item, what the update is about; none where that is nothing.
fn updated(prepared: &Prepared<'_>, item: Item) -> Option<Item> {
    let attributes = item.into_iter();
    let updated: Item = attributes
        .filter(|(name, _)| prepared.is_about(name))
        .collect();
    (!updated.is_empty()).then_some(updated)
}
