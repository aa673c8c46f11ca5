//! `BatchExecuteStatement`: independent statements, each with its own result. Each writes one item:
//! `INSERT INTO … VALUE …` or `UPDATE … SET … WHERE …`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::error::Refusal;
use super::expression::{Condition, Operand, Placeholders, Update};
use super::parsed::{Expression, Part, Rule, cached, first, word};
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
    table_name: Arc<str>,
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
            cached(&mut self.statements, one.statement.get(), |json| {
                let text: String = read(json.as_bytes())?;
                Statement::read(&text)
            })
        });
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        let none = Default::default();
        let mut ids = BTreeSet::new();
        let mut ready = Vec::with_capacity(statements);
        for (one, statement) in batch.statements.iter().zip(&parsed) {
            let (names, values) = &none;
            let placeholders = Placeholders {
                names,
                values,
                parameters: &one.parameters,
            };
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
                table_name: Arc::clone(statement.table()),
                error,
            });
        }
        Ok(Answer {
            statements,
            ..done(&Responses { responses }, units)?
        })
    }
}

/// One statement of a batch.
#[derive(Debug)]
pub(super) enum Statement {
    Insert {
        table: Arc<str>,
        attributes: Vec<(Arc<str>, Operand)>,
    },
    Update {
        table: Arc<str>,
        update: Update,
        condition: Condition,
    },
}

impl Expression for Statement {
    const WHOLE: Rule = Rule::only_statement;

    fn of(part: Part<'_>) -> Self {
        let is_insert = part.as_rule() == Rule::insert;
        let mut inner = part.into_inner();
        let table = word(&first(&mut inner)).into();
        if !is_insert {
            return Self::Update {
                table,
                update: Update::of(first(&mut inner)),
                condition: Condition::of(first(&mut inner)),
            };
        }
        let attributes = inner.map(|member| {
            let mut inner = member.into_inner();
            let name = word(&first(&mut inner)).into();
            (name, Operand::of(first(&mut inner)))
        });
        Self::Insert {
            table,
            attributes: attributes.collect(),
        }
    }
}

impl Statement {
    fn table(&self) -> &Arc<str> {
        match self {
            Self::Insert { table, .. } | Self::Update { table, .. } => table,
        }
    }

    /// The id of its item.
    fn id(&self, placeholders: Placeholders<'_>) -> Result<String, Refusal> {
        let wanted = match self {
            Self::Insert { attributes, .. } => {
                let id = attributes.iter().find(|(name, _)| &**name == "id");
                id.map(|(_, value)| value)
            }
            Self::Update { condition, .. } => condition.wanted("id"),
        };
        let value = wanted.and_then(|wanted| wanted.value(None, placeholders));
        id_of(value.as_ref()).map(str::to_owned)
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
                let attributes = attributes.iter().filter_map(|(name, value)| {
                    Some((Arc::clone(name), value.value(None, placeholders)?))
                });
                let item: Item = attributes.collect();
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
                if !condition.holds(Some(found), placeholders) {
                    return Err(Refusal::condition(Some(found), shown));
                }
                let before = item_size(found);
                update.apply(found, placeholders)?;
                Ok(Units::of_write(before.max(item_size(found))))
            }
        }
    }
}
