//! `BatchExecuteStatement`: independent statements, each with its own result.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::error::Refusal;
use super::operand::Placeholders;
use super::parsed::{Parsed, Rule};
use super::statement::Statement;
use super::units::Units;
use super::value::{Item, Value, item_size};
use super::{Answer, Table, Tables, done, id_of, read};

const MOST_STATEMENTS: usize = 25;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Batch<'a> {
    #[serde(borrow)]
    statements: Vec<OneStatement<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneStatement<'a> {
    /// As JSON, because a cached statement need not be unescaped again.
    #[serde(borrow)]
    statement: &'a RawValue,
    #[serde(default)]
    parameters: Vec<Value>,
    return_values_on_condition_check_failure: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Responses {
    responses: Vec<Response>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Response {
    #[serde(skip_serializing_if = "Option::is_none")]
    table_name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
}

impl Tables {
    pub(super) fn batch_execute(&mut self, body: &[u8]) -> Result<Answer, Refusal> {
        let batch: Batch<'_> = read(body)?;
        let statements = batch.statements.len();
        if !(1..=MOST_STATEMENTS).contains(&statements) {
            return Err(Refusal::validation("a batch has 1 to 25 statements"));
        }
        let parsed = batch.statements.iter().map(|one| {
            self.statements.of(one.statement.get(), |json| {
                let text: String = read(json.as_bytes())?;
                Parsed::read(&text, Rule::only_statement, Statement::of)
            })
        });
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        let none = Default::default();
        let mut ids = BTreeSet::new();
        let mut ready = Vec::with_capacity(statements);
        for (one, parsed) in batch.statements.iter().zip(&parsed) {
            let (names, values) = &none;
            let placeholders = Placeholders {
                names,
                values,
                parameters: &one.parameters,
            };
            let statement = &parsed.expression;
            let id = statement.id(placeholders)?;
            if !ids.insert((statement.table(), id.clone())) {
                return Err(Refusal::validation(
                    "Provided list of item keys contains duplicates",
                ));
            }
            ready.push((one, statement, id, placeholders));
        }
        let (mut responses, mut units) = (Vec::with_capacity(statements), Units::default());
        for (one, statement, id, placeholders) in ready {
            let shown = one.return_values_on_condition_check_failure.as_deref();
            let table = self.table(statement.table());
            let result = statement.carry_out(table, id, placeholders, shown);
            let (consumed, error) = match result {
                Ok(consumed) => (consumed, None),
                Err(refusal) => (refusal.units, Some(refusal.of_statement())),
            };
            units = units + consumed;
            responses.push(Response {
                table_name: Some(Arc::clone(statement.table())),
                error,
            });
        }
        Ok(Answer {
            statements,
            ..done(&Responses { responses }, units)?
        })
    }
}

impl Statement {
    /// The id of its item.
    fn id(&self, placeholders: Placeholders<'_>) -> Result<String, Refusal> {
        let wanted = match self {
            Self::Insert { attributes, .. } => {
                let id = attributes.iter().find(|(name, _)| &**name == "id");
                id.map(|(_, value)| value)
            }
            Self::Update { condition, .. } => condition.wanted("id"),
        };
        let Some(wanted) = wanted else {
            return Err(Refusal::validation("a statement names the id of its item"));
        };
        let value = wanted.value(None, placeholders)?;
        let key = value.map(|value| ("id".into(), value.into_owned()));
        id_of(&key.into_iter().collect()).map(str::to_owned)
    }

    fn carry_out(
        &self,
        table: &mut Table,
        id: String,
        placeholders: Placeholders<'_>,
        shown: Option<&str>,
    ) -> Result<Units, Refusal> {
        match self {
            Self::Insert { attributes, .. } => {
                let mut item = Item::new();
                for (name, value) in attributes {
                    let value = value.value(None, placeholders)?;
                    item.extend(value.map(|value| (Arc::clone(name), value.into_owned())));
                }
                if table.contains_key(&id) {
                    return Err(Refusal::duplicate(&item));
                }
                let units = Units::of_write(item_size(&item));
                table.insert(id, item);
                Ok(units)
            }
            Self::Update {
                update, condition, ..
            } => {
                // Unlike `UpdateItem`, the statement never creates an item.
                let Some(found) = table.get_mut(&id) else {
                    return Err(Refusal::condition(None, shown));
                };
                if !condition.holds(Some(found), placeholders)? {
                    return Err(Refusal::condition(Some(found), shown));
                }
                let before = item_size(found);
                update.apply(found, placeholders)?;
                Ok(Units::of_write(before.max(item_size(found))))
            }
        }
    }
}
