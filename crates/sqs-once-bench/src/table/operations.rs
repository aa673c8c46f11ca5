//! The operations: each reads its request, and answers from the items or changes them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value as Json, json};

use super::error::ApiError;
use super::expression::{Condition, Placeholders, Update};
use super::statement::Statement;
use super::units::Units;
use super::value::{Item, KEY, Value, key};

/// The most statements, and the most keys, that DynamoDB takes in one request.
const MOST_STATEMENTS: usize = 25;
const MOST_KEYS: usize = 100;

/// All tables, each made by its first write, and the expressions that were read before.
#[derive(Default)]
pub(super) struct Tables {
    items: HashMap<String, HashMap<String, Item>>,
    conditions: Parsed<Condition>,
    updates: Parsed<Update>,
    statements: Parsed<Statement>,
}

/// An answer, how many statements of a batch it took, and what it consumed.
pub(super) struct Answer {
    pub(super) body: String,
    pub(super) statements: usize,
    pub(super) units: Units,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    table_name: String,
    #[serde(default)]
    key: Item,
    #[serde(default)]
    item: Item,
    condition_expression: Option<String>,
    update_expression: Option<String>,
    #[serde(default)]
    expression_attribute_names: HashMap<String, String>,
    #[serde(default)]
    expression_attribute_values: HashMap<String, Value>,
    return_values: Option<String>,
    return_values_on_condition_check_failure: Option<String>,
    #[serde(default)]
    consistent_read: bool,
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
    #[serde(default)]
    consistent_read: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct BatchExecute<'a> {
    #[serde(borrow)]
    statements: Vec<OneStatement<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct OneStatement<'a> {
    /// As JSON: a statement that was read before need not be unescaped again.
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
    pub(super) fn handle(&mut self, operation: &str, body: &[u8]) -> Result<Answer, ApiError> {
        let answer = |(body, units): (Json, Units)| Answer {
            body: body.to_string(),
            statements: 0,
            units,
        };
        match operation {
            "GetItem" => self.get(&read(body)?).map(answer),
            "PutItem" | "UpdateItem" | "DeleteItem" => {
                let written = self.write(operation, &read(body)?)?;
                Ok(answer((written, Units::of_writes(1))))
            }
            "BatchGetItem" => self.batch_get(&read(body)?).map(answer),
            "BatchExecuteStatement" => self.batch_execute(&read(body)?),
            _ => Err(ApiError::unknown_operation(operation)),
        }
    }

    /// How many items of a table have this text as their attribute `name`.
    pub(super) fn count(&self, table: &str, name: &str, text: &str) -> usize {
        let has = |item: &&Item| matches!(item.get(name), Some(Value::S(found)) if found == text);
        let items = self.items.get(table).into_iter().flat_map(HashMap::values);
        items.filter(has).count()
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
    }

    fn item(&self, table: &str, key: &str) -> Option<&Item> {
        self.items.get(table)?.get(key)
    }

    fn put(&mut self, table: &str, item: Item) -> Result<(), ApiError> {
        let key = key(&item)?.to_owned();
        if !self.items.contains_key(table) {
            self.items.insert(table.to_owned(), HashMap::new());
        }
        if let Some(items) = self.items.get_mut(table) {
            items.insert(key, item);
        }
        Ok(())
    }

    fn get(&self, request: &Request) -> Result<(Json, Units), ApiError> {
        let item = self.item(&request.table_name, key(&request.key)?);
        let answer = item.map_or_else(|| json!({}), |item| json!({"Item": item}));
        Ok((answer, Units::of_reads(1, request.consistent_read)))
    }

    fn write(&mut self, operation: &str, request: &Request) -> Result<Json, ApiError> {
        let table = &request.table_name;
        let keyed = if operation == "PutItem" {
            &request.item
        } else {
            &request.key
        };
        let key = key(keyed)?;
        let found = self.item(table, key).cloned();
        let placeholders = Placeholders {
            names: &request.expression_attribute_names,
            values: &request.expression_attribute_values,
            parameters: &[],
        };
        if let Some(text) = &request.condition_expression {
            let condition = self.conditions.of(text, Condition::parse)?;
            let absent = Item::new();
            if !condition.holds(found.as_ref().unwrap_or(&absent), placeholders)? {
                let shown = wants_item(request.return_values_on_condition_check_failure.as_deref());
                return Err(ApiError::condition(found.filter(|_| shown)));
            }
        }
        match operation {
            "PutItem" => {
                self.put(table, request.item.clone())?;
                answer_with(request, found, None, |_| false)
            }
            "DeleteItem" => {
                if let Some(items) = self.items.get_mut(table) {
                    items.remove(key);
                }
                answer_with(request, found, None, |_| false)
            }
            _ => {
                let text = request.update_expression.as_deref().unwrap_or_default();
                let update = self.updates.of(text, Update::parse)?;
                let mut updated = found.clone().unwrap_or_else(|| request.key.clone());
                update.apply(&mut updated, placeholders)?;
                self.put(table, updated.clone())?;
                answer_with(request, found, Some(updated), |name| {
                    update.sets(name, placeholders)
                })
            }
        }
    }

    fn batch_get(&self, request: &BatchGet) -> Result<(Json, Units), ApiError> {
        let keys: usize = request
            .request_items
            .values()
            .map(|keys| keys.keys.len())
            .sum();
        if !(1..=MOST_KEYS).contains(&keys) {
            return Err(ApiError::validation("Too many items requested, or none"));
        }
        let mut responses = BTreeMap::new();
        let mut units = Units::default();
        for (table, keys) in &request.request_items {
            let mut items = BTreeMap::new();
            for wanted in &keys.keys {
                let wanted = key(wanted)?;
                if items.insert(wanted, self.item(table, wanted)).is_some() {
                    return Err(ApiError::validation(
                        "Provided list of item keys contains duplicates",
                    ));
                }
            }
            units = units + Units::of_reads(keys.keys.len(), keys.consistent_read);
            responses.insert(table, items.into_values().flatten().collect::<Vec<_>>());
        }
        let answer = json!({"Responses": responses, "UnprocessedKeys": {}});
        Ok((answer, units))
    }

    fn batch_execute(&mut self, request: &BatchExecute<'_>) -> Result<Answer, ApiError> {
        let statements = request.statements.len();
        if !(1..=MOST_STATEMENTS).contains(&statements) {
            return Err(ApiError::validation("a batch has 1 to 25 statements"));
        }
        let responses = request
            .statements
            .iter()
            .map(|one| match self.execute(one) {
                Ok(table) => Response {
                    table_name: Some(table),
                    error: None,
                },
                Err(error) => Response {
                    table_name: None,
                    error: Some(error.of_statement()),
                },
            });
        let responses = Responses {
            responses: responses.collect(),
        };
        let body = serde_json::to_string(&responses);
        let body = body.map_err(|error| ApiError::validation(error.to_string()))?;
        Ok(Answer {
            body,
            statements,
            units: Units::of_writes(statements),
        })
    }

    /// Runs one statement; returns the name of its table.
    fn execute(&mut self, one: &OneStatement<'_>) -> Result<Arc<str>, ApiError> {
        let statement = self.statements.of(one.statement.get(), |json| {
            let text: String = read(json.as_bytes())?;
            Statement::parse(&text)
        })?;
        let placeholders = Placeholders {
            names: &HashMap::new(),
            values: &HashMap::new(),
            parameters: &one.parameters,
        };
        let nothing = Item::new();
        match &*statement {
            Statement::Insert { table, attributes } => {
                let mut item = Item::new();
                for (name, operand) in attributes {
                    let value = operand.value(&nothing, placeholders)?;
                    item.extend(value.map(|value| (Arc::clone(name), value.into_owned())));
                }
                if self.item(table, key(&item)?).is_some() {
                    return Err(ApiError::duplicate());
                }
                self.put(table, item)?;
                Ok(Arc::clone(table))
            }
            Statement::Update {
                table,
                update,
                condition,
            } => {
                let wanted = condition
                    .wanted(KEY)
                    .map(|key| key.value(&nothing, placeholders));
                let wanted = match wanted.transpose()?.flatten().as_deref() {
                    Some(Value::S(wanted)) => wanted.clone(),
                    _ => {
                        return Err(ApiError::validation(
                            "Where clause does not contain a mandatory equality on all key attributes",
                        ));
                    }
                };
                // Other than `UpdateItem`, the statement never makes an item.
                let items = self.items.get_mut(&**table);
                let Some(found) = items.and_then(|items| items.get_mut(&wanted)) else {
                    return Err(ApiError::condition(None));
                };
                if !condition.holds(found, placeholders)? {
                    let shown = wants_item(one.return_values_on_condition_check_failure.as_deref());
                    return Err(ApiError::condition(shown.then(|| found.clone())));
                }
                update.apply(found, placeholders)?;
                Ok(Arc::clone(table))
            }
        }
    }
}

/// What a write answers, as far as its request asks for it.
fn answer_with(
    request: &Request,
    old: Option<Item>,
    new: Option<Item>,
    is_updated: impl Fn(&str) -> bool,
) -> Result<Json, ApiError> {
    let only_updated = |item: Item| -> Item {
        let items = item.into_iter();
        items.filter(|(name, _)| is_updated(name)).collect()
    };
    let attributes = match request.return_values.as_deref() {
        None | Some("NONE") => None,
        Some("ALL_OLD") => old,
        Some("ALL_NEW") => new,
        Some("UPDATED_OLD") => old.map(only_updated),
        Some("UPDATED_NEW") => new.map(only_updated),
        Some(_) => return Err(ApiError::validation("no such ReturnValues")),
    };
    Ok(attributes.map_or_else(|| json!({}), |attributes| json!({"Attributes": attributes})))
}

fn wants_item(return_values: Option<&str>) -> bool {
    return_values == Some("ALL_OLD")
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::validation(error.to_string()))
}

/// Expressions that were read before: clients send the same few texts again and again.
struct Parsed<T>(HashMap<String, Arc<T>>);

impl<T> Default for Parsed<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Parsed<T> {
    fn of(
        &mut self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<T, ApiError>,
    ) -> Result<Arc<T>, ApiError> {
        if let Some(parsed) = self.0.get(text) {
            return Ok(Arc::clone(parsed));
        }
        let parsed = Arc::new(parse(text)?);
        self.0.insert(text.to_owned(), Arc::clone(&parsed));
        Ok(parsed)
    }
}
