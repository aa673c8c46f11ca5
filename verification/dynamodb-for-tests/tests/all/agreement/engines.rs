//! What is compared: these tables, and dynoxide inside this process.

use std::collections::BTreeMap;
use std::time::Duration;

use dynamodb_for_tests::{Item, KeyType, Schema, Tables};
use dynoxide::Database;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};

/// The tables of every engine: their names, their keys, and the types of these.
pub(crate) const TABLES: [(&str, &[(&str, &str)]); 3] = [
    ("idempotency", &[("id", "S")]),
    ("effects", &[("id", "S")]),
    ("ledger", &[("pk", "S"), ("sk", "N")]),
];

/// A DynamoDB.
pub(crate) trait Engine: Send {
    fn name(&self) -> &'static str;

    /// The status and the body.
    fn carry_out(&mut self, operation: &str, body: &str) -> (u16, Json);

    /// All items of a table.
    fn contents(&mut self, table: &str) -> Vec<Json>;
}

/// What makes a table.
pub(crate) fn description(name: &str, key: &[(&str, &str)]) -> Json {
    let types = key
        .iter()
        .map(|(name, of)| json!({"AttributeName": name, "AttributeType": of}));
    let roles = key
        .iter()
        .zip(["HASH", "RANGE"])
        .map(|((name, _), role)| json!({"AttributeName": name, "KeyType": role}));
    json!({
        "TableName": name,
        "KeySchema": roles.collect::<Vec<_>>(),
        "AttributeDefinitions": types.collect::<Vec<_>>(),
        "BillingMode": "PAY_PER_REQUEST",
    })
}

/// These tables.
pub(crate) struct Ours(Tables);

impl Ours {
    pub(crate) fn new() -> Self {
        let mut tables = Tables::new();
        for (name, key) in TABLES {
            let of = |of| if of == "N" { KeyType::N } else { KeyType::S };
            let mut schema = Schema::partition_key(key[0].0, of(key[0].1));
            if let Some((name, sort)) = key.get(1) {
                schema = schema.sort_key(*name, of(sort));
            }
            tables.create(name, schema);
        }
        Self(tables)
    }
}

impl Engine for Ours {
    fn name(&self) -> &'static str {
        "dynamodb-for-tests"
    }

    fn carry_out(&mut self, operation: &str, body: &str) -> (u16, Json) {
        let answer = self.0.carry_out(operation, body.as_bytes(), Duration::ZERO);
        (answer.status, serde_json::from_str(&answer.body).unwrap())
    }

    fn contents(&mut self, table: &str) -> Vec<Json> {
        let json = |item: &Item| serde_json::to_value(item).unwrap();
        self.0.items(table).map(json).collect()
    }
}

/// dynoxide.
pub(crate) struct Dynoxide(Database);

impl Dynoxide {
    pub(crate) fn new() -> Self {
        let database = Database::memory().unwrap();
        for (name, key) in TABLES {
            let description = serde_json::from_value(description(name, key)).unwrap();
            database.create_table(description).unwrap();
        }
        Self(database)
    }
}

impl Engine for Dynoxide {
    fn name(&self) -> &'static str {
        "dynoxide"
    }

    fn carry_out(&mut self, operation: &str, body: &str) -> (u16, Json) {
        let database = &self.0;
        match operation {
            "GetItem" => answered(body, |request| database.get_item(request)),
            "PutItem" => answered(body, |request| database.put_item(request)),
            "UpdateItem" => answered(body, |request| database.update_item(request)),
            "DeleteItem" => answered(body, |request| database.delete_item(request)),
            "BatchGetItem" => answered(body, |request| database.batch_get_item(request)),
            "BatchExecuteStatement" => {
                answered(body, |request| database.batch_execute_statement(request))
            }
            "TransactWriteItems" => {
                answered(body, |request| database.transact_write_items(request))
            }
            _ => panic!("no {operation} is compared"),
        }
    }

    fn contents(&mut self, table: &str) -> Vec<Json> {
        let request = json!({"TableName": table}).to_string();
        let (_, answer) = answered(&request, |request| self.0.scan(request));
        answer["Items"].as_array().cloned().unwrap_or_default()
    }
}

fn answered<R: DeserializeOwned, A: Serialize>(
    body: &str,
    carry_out: impl FnOnce(R) -> dynoxide::Result<A>,
) -> (u16, Json) {
    let answer = match serde_json::from_str(body) {
        Ok(request) => carry_out(request),
        // Its server says the same of a body that it can't read.
        Err(error) => {
            return (
                400,
                json!({"__type": "#ValidationException", "message": error.to_string()}),
            );
        }
    };
    match answer {
        Ok(answer) => (200, serde_json::to_value(answer).unwrap()),
        Err(error) => (
            error.status_code(),
            serde_json::from_str(&error.to_json()).unwrap(),
        ),
    }
}

/// Answers and items without what may differ: the words of errors, the order of items and of sets.
pub(crate) fn normalised(mut json: Json) -> Json {
    sort_sets(&mut json);
    let Some(answer) = json.as_object_mut() else {
        return json;
    };
    if let Some(kind) = answer.get("__type").and_then(Json::as_str) {
        let kind = kind.rsplit('#').next().unwrap().to_owned();
        answer.insert("__type".to_owned(), kind.into());
    }
    for words in ["message", "Message"] {
        answer.remove(words);
    }
    if let Some(Json::Array(reasons)) = answer.get_mut("CancellationReasons") {
        for reason in reasons.iter_mut().filter_map(Json::as_object_mut) {
            reason.remove("Message");
        }
    }
    if let Some(Json::Array(responses)) = answer.get_mut("Responses") {
        for response in responses {
            let Some(error) = response.get_mut("Error").and_then(Json::as_object_mut) else {
                continue;
            };
            error.remove("Message");
            // Some of these name their table, others don't.
            if error["Code"] == "ValidationError" {
                response.as_object_mut().unwrap().remove("TableName");
            }
        }
    }
    // What statements consume that failed, DynamoDB's own documentation does not say.
    let responses = answer.get("Responses").and_then(Json::as_array);
    if responses.is_some_and(|all| all.iter().any(|one| one.get("Error").is_some())) {
        answer.remove("ConsumedCapacity");
    }
    // By table.
    if let Some(Json::Array(consumed)) = answer.get_mut("ConsumedCapacity") {
        consumed.sort_by_key(Json::to_string);
    }
    // Of a batch of reads, by table.
    if let Some(tables) = answer.get_mut("Responses").and_then(Json::as_object_mut) {
        for items in tables.values_mut().filter_map(Json::as_array_mut) {
            items.sort_by_key(Json::to_string);
        }
    }
    json
}

fn sort_sets(json: &mut Json) {
    match json {
        Json::Object(object) => {
            for (name, value) in object.iter_mut() {
                match value {
                    Json::Array(members) if ["SS", "NS", "BS"].contains(&name.as_str()) => {
                        members.sort_by_key(Json::to_string);
                    }
                    _ => sort_sets(value),
                }
            }
        }
        Json::Array(list) => list.iter_mut().for_each(sort_sets),
        _ => {}
    }
}

/// The items of all tables, sorted.
pub(crate) fn everything(engine: &mut dyn Engine) -> BTreeMap<&'static str, Vec<Json>> {
    let tables = TABLES.map(|(table, _)| {
        let mut items: Vec<_> = engine.contents(table).into_iter().map(normalised).collect();
        items.sort_by_key(Json::to_string);
        (table, items)
    });
    tables.into_iter().collect()
}
