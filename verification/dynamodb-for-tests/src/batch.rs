//! `BatchExecuteStatement`: statements that stand side by side, each with a result of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use crate::answer::{Capacity, Done, done, is_asked_for, read};
use crate::error::ApiError;
use crate::operand::Placeholders;
use crate::parsed::Parsed;
use crate::schema::{ItemKey, Schema};
use crate::statement::Statement;
use crate::tables::{Table, Tables};
use crate::units::Units;
use crate::value::{Item, Value, item_size};
use crate::write::{checked, wants_item};

const MOST_STATEMENTS: usize = 25;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<'a> {
    #[serde(borrow)]
    statements: Vec<OneStatement<'a>>,
    return_consumed_capacity: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneStatement<'a> {
    /// As JSON: a statement that was read before need not be unescaped again.
    #[serde(borrow)]
    statement: &'a RawValue,
    parameters: Option<Vec<Value>>,
    return_values_on_condition_check_failure: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Responses<'a> {
    responses: Vec<Response>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Vec<Capacity<'a>>>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "Option::is_none")]
    table_name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
}

impl OneStatement<'_> {
    fn parameters(&self) -> &[Value] {
        self.parameters.as_deref().unwrap_or_default()
    }

    fn placeholders<'a>(
        &'a self,
        none: &'a (HashMap<String, String>, HashMap<String, Value>),
    ) -> Placeholders<'a> {
        Placeholders {
            names: &none.0,
            values: &none.1,
            parameters: self.parameters(),
        }
    }
}

impl Tables {
    pub(crate) fn batch_execute(&mut self, body: &[u8]) -> Result<Done, ApiError> {
        let batch: Batch<'_> = read(body)?;
        let count = batch.statements.len();
        if !(1..=MOST_STATEMENTS).contains(&count) {
            return Err(ApiError::validation("a batch has 1 to 25 statements"));
        }
        let is_empty = |one: &OneStatement<'_>| one.parameters.as_ref().is_some_and(Vec::is_empty);
        if batch.statements.iter().any(is_empty) {
            return Err(ApiError::validation("a list of parameters is not empty"));
        }
        let none = Default::default();
        let parsed = batch.statements.iter().map(|one| {
            self.statements.of(one.statement.get(), |json| {
                let text: String = read(json.as_bytes())?;
                Parsed::read(&text, Statement::read)
            })
        });
        let parsed: Vec<_> = parsed.collect();
        let mut targets = BTreeSet::new();
        for (one, parsed) in batch.statements.iter().zip(&parsed) {
            let Ok(parsed) = parsed else { continue };
            let name = parsed.expression.table();
            let Ok(table) = self.table(name) else {
                continue;
            };
            let key = parsed
                .expression
                .key(&table.schema, one.placeholders(&none));
            if let Ok(key) = key
                && !targets.insert((Arc::clone(name), key))
            {
                return Err(ApiError::validation(
                    "Provided list of item keys contains duplicates",
                ));
            }
        }
        let (mut responses, mut all) = (Vec::with_capacity(count), Units::default());
        let mut consumed = BTreeMap::<Arc<str>, Units>::new();
        for (one, parsed) in batch.statements.iter().zip(parsed) {
            let name = parsed
                .as_ref()
                .ok()
                .map(|parsed| Arc::clone(parsed.expression.table()));
            let result = parsed.and_then(|parsed| {
                // More of them than question marks are no error.
                if parsed.parameters > one.parameters().len() {
                    return Err(ApiError::validation(
                        "Number of parameters in request and statement don't match.",
                    ));
                }
                let table = self.table(parsed.expression.table())?;
                let shown = one.return_values_on_condition_check_failure.as_deref();
                let placeholders = one.placeholders(&none);
                parsed
                    .expression
                    .carry_out(table, placeholders, wants_item(shown))
            });
            let (units, error) = match result {
                Ok(units) => (units, None),
                Err(error) => (error.units, Some(error)),
            };
            let is_named = error.as_ref().is_none_or(ApiError::names_table);
            if let Some(name) = &name {
                let of_table = consumed.entry(Arc::clone(name)).or_default();
                *of_table = *of_table + units;
                all = all + units;
            }
            responses.push(Response {
                table_name: name.filter(|_| is_named),
                error: error.map(|error| error.of_part()),
            });
        }
        let consumed = consumed
            .iter()
            .map(|(name, units)| Capacity::of(name, *units));
        let asked = is_asked_for(batch.return_consumed_capacity.as_deref());
        let answer = Responses {
            responses,
            consumed_capacity: asked.then(|| consumed.collect()),
        };
        Ok(Done {
            statements: count,
            ..done(&answer, all)?
        })
    }
}

impl Statement {
    /// Which item it is of.
    fn key(&self, schema: &Schema, placeholders: Placeholders<'_>) -> Result<ItemKey, ApiError> {
        match self {
            Self::Insert { .. } => schema.of_item(&self.inserted(placeholders)?),
            Self::Update { condition, .. } => {
                let mut key = Item::new();
                for name in schema.names() {
                    let wanted = condition.wanted(name);
                    let wanted = wanted.and_then(|wanted| wanted.constant(placeholders));
                    let wanted = wanted.ok_or_else(|| {
                        ApiError::validation(
                            "Where clause does not contain a mandatory equality on all key attributes",
                        )
                    })?;
                    key.insert(name.into(), wanted.clone());
                }
                schema.of_key(&key)
            }
        }
    }

    fn inserted(&self, placeholders: Placeholders<'_>) -> Result<Item, ApiError> {
        let nothing = Item::new();
        let mut item = Item::new();
        if let Self::Insert { attributes, .. } = self {
            for (name, operand) in attributes {
                let value = operand.value(&nothing, placeholders)?;
                item.extend(value.map(|value| (Arc::clone(name), value.into_owned())));
            }
        }
        Ok(item)
    }

    fn carry_out(
        &self,
        table: &mut Table,
        placeholders: Placeholders<'_>,
        is_shown: bool,
    ) -> Result<Units, ApiError> {
        let key = self.key(&table.schema, placeholders)?;
        match self {
            Self::Insert { .. } => {
                let item = checked(self.inserted(placeholders)?)?;
                if table.items.contains_key(&key) {
                    return Err(ApiError::duplicate(&item));
                }
                let units = Units::of_write(item_size(&item));
                table.items.insert(key, item);
                Ok(units)
            }
            Self::Update {
                update, condition, ..
            } => {
                update.check(placeholders)?;
                condition.check(placeholders)?;
                if update.targets().any(|name| table.schema.has(name)) {
                    return Err(ApiError::validation(
                        "Cannot update attribute. This attribute is part of the key",
                    ));
                }
                // Other than `UpdateItem`, the statement never makes an item.
                let Some(found) = table.items.get_mut(&key) else {
                    return Err(ApiError::condition(None, is_shown));
                };
                if !condition.holds(found, placeholders)? {
                    return Err(ApiError::condition(Some(found), is_shown));
                }
                let mut item = found.clone();
                update.apply(&mut item, placeholders)?;
                let item = checked(item)?;
                let units = Units::of_write(item_size(&item).max(item_size(found)));
                *found = item;
                Ok(units)
            }
        }
    }
}
