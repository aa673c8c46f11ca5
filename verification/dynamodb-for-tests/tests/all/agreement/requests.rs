//! Random requests.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};

use super::engines::TABLES;
use super::expressions::{
    Action, Condition, Name, Placeholders, actions, attributes, condition, name, ordered, update,
    value,
};

/// How many different keys a table has.
pub(crate) const KEYS: u8 = 3;

/// A request: its operation, its body, and how many operations it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) operation: &'static str,
    pub(crate) body: Json,
    pub(crate) operations: usize,
}

/// Which table, by its place among `TABLES`; one further there is none.
#[derive(Clone, Copy, Debug)]
struct Table(usize);

impl Table {
    fn name(self) -> &'static str {
        TABLES.get(self.0).map_or("missing", |(name, _)| name)
    }

    fn key_names(self) -> &'static [(&'static str, &'static str)] {
        TABLES.get(self.0).map_or(TABLES[0].1, |(_, key)| key)
    }

    fn key(self, number: u8) -> BTreeMap<String, Json> {
        let names = self.key_names().iter();
        let key = names.map(|(name, of)| {
            let value = match *of {
                "N" => json!({ "N": number.to_string() }),
                _ => json!({ "S": format!("k{}", number / 2) }),
            };
            ((*name).to_owned(), value)
        });
        let mut key: BTreeMap<_, _> = key.collect();
        if key.len() == 1 {
            key.insert(
                self.key_names()[0].0.to_owned(),
                json!({ "S": format!("k{number}") }),
            );
        }
        key
    }
}

fn table() -> impl Strategy<Value = Table> {
    prop_oneof![
        20 => Just(Table(0)),
        10 => Just(Table(1)),
        10 => Just(Table(2)),
        1 => Just(Table(TABLES.len())),
    ]
}

/// A key as it should be, or not.
#[derive(Clone, Debug)]
enum KeyOf {
    Right(u8),
    None,
    Empty,
    WrongType,
    TooMuch,
    TooLong,
}

impl KeyOf {
    fn of(&self, table: Table) -> BTreeMap<String, Json> {
        let mut key = table.key(if let Self::Right(number) = self {
            *number
        } else {
            0
        });
        let first = table.key_names()[0].0;
        match self {
            Self::Right(_) => {}
            Self::None => drop(key.remove(first)),
            Self::Empty => drop(key.insert(first.to_owned(), json!({ "S": "" }))),
            Self::WrongType => drop(key.insert(first.to_owned(), json!({ "N": "1" }))),
            Self::TooMuch => drop(key.insert("more".to_owned(), json!({ "S": "x" }))),
            Self::TooLong => drop(key.insert(first.to_owned(), json!({ "S": "x".repeat(2049) }))),
        }
        key
    }
}

fn key() -> impl Strategy<Value = KeyOf> {
    prop_oneof![
        40 => (0..KEYS).prop_map(KeyOf::Right),
        1 => Just(KeyOf::None),
        1 => Just(KeyOf::Empty),
        1 => Just(KeyOf::WrongType),
        1 => Just(KeyOf::TooMuch),
        1 => Just(KeyOf::TooLong),
    ]
}

#[derive(Clone, Debug)]
enum WriteOf {
    Put(BTreeMap<String, Json>),
    Update(Vec<Action>),
    Delete,
    Check,
}

#[derive(Clone, Debug)]
struct OneWrite {
    table: Table,
    key: KeyOf,
    what: WriteOf,
    condition: Option<Condition>,
    shown: bool,
}

impl OneWrite {
    /// Its kind as a transaction has it, and its request.
    fn request(&self) -> (&'static str, Json) {
        let mut request = json!({ "TableName": self.table.name() });
        let mut placeholders = Placeholders::default();
        let key = self.key.of(self.table);
        let kind = match &self.what {
            WriteOf::Put(attributes) => {
                let mut item = attributes.clone();
                item.extend(key);
                request["Item"] = json!(item);
                "Put"
            }
            WriteOf::Update(actions) => {
                request["Key"] = json!(key);
                request["UpdateExpression"] = update(actions, &mut placeholders).into();
                "Update"
            }
            WriteOf::Delete => {
                request["Key"] = json!(key);
                "Delete"
            }
            WriteOf::Check => {
                request["Key"] = json!(key);
                "ConditionCheck"
            }
        };
        if let Some(condition) = &self.condition {
            request["ConditionExpression"] = condition.text(&mut placeholders).into();
        }
        placeholders.insert_into(&mut request);
        if self.shown {
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
        }
        (kind, request)
    }
}

fn write() -> impl Strategy<Value = OneWrite> {
    let what = prop_oneof![
        3 => attributes().prop_map(WriteOf::Put),
        5 => actions().prop_map(WriteOf::Update),
        1 => Just(WriteOf::Delete),
        1 => Just(WriteOf::Check),
    ];
    let condition = option::weighted(0.6, condition());
    (table(), key(), what, condition, any::<bool>()).prop_map(
        |(table, key, what, condition, shown)| OneWrite {
            table,
            key,
            condition: match what {
                WriteOf::Check => condition.or(Some(Condition::NotExists(Name::of("absent")))),
                _ => condition,
            },
            what,
            shown,
        },
    )
}

/// A write that is alone.
fn alone() -> impl Strategy<Value = Request> {
    let returns = select(["NONE", "ALL_OLD", "ALL_NEW", "UPDATED_OLD", "UPDATED_NEW"].as_slice());
    let is_check = |write: &OneWrite| matches!(write.what, WriteOf::Check);
    (
        write().prop_filter("checks are of transactions", move |write| !is_check(write)),
        returns,
        any::<bool>(),
    )
        .prop_map(|(write, returns, counted)| {
            let (kind, mut body) = write.request();
            body["ReturnValues"] = returns.into();
            if counted {
                body["ReturnConsumedCapacity"] = "TOTAL".into();
            }
            if body["UpdateExpression"] == "" {
                body.as_object_mut().unwrap().remove("UpdateExpression");
            }
            let operation = match kind {
                "Put" => "PutItem",
                "Update" => "UpdateItem",
                _ => "DeleteItem",
            };
            Request {
                operation,
                body,
                operations: 1,
            }
        })
}

/// A transaction, with one of few tokens, or none.
fn transaction() -> impl Strategy<Value = Request> {
    (vec(write(), 1..5), option::of(0_u8..2), any::<bool>()).prop_map(|(writes, token, counted)| {
        // Of several errors in one request, DynamoDB does not say which it tells.
        let is_alone = writes.len() == 1;
        let items = writes.into_iter().map(|mut write| {
            if !is_alone && !matches!(write.key, KeyOf::Right(_)) {
                write.key = KeyOf::Right(0);
            }
            let (kind, request) = write.request();
            json!({ kind: request })
        });
        let items: Vec<_> = items.collect();
        let operations = items.len();
        let mut body = json!({ "TransactItems": items });
        if let Some(token) = token {
            body["ClientRequestToken"] = format!("token-{token}").into();
        }
        if counted {
            body["ReturnConsumedCapacity"] = "TOTAL".into();
        }
        Request {
            operation: "TransactWriteItems",
            body,
            operations,
        }
    })
}

fn get() -> impl Strategy<Value = Request> {
    (table(), key(), any::<bool>(), any::<bool>()).prop_map(|(table, key, consistent, counted)| {
        let mut body =
            json!({"TableName": table.name(), "Key": key.of(table), "ConsistentRead": consistent});
        if counted {
            body["ReturnConsumedCapacity"] = "TOTAL".into();
        }
        Request {
            operation: "GetItem",
            body,
            operations: 1,
        }
    })
}

fn batch_get() -> impl Strategy<Value = Request> {
    let right = (vec((table(), vec((0..KEYS).prop_map(KeyOf::Right), 1..4)), 1..3)).boxed();
    // Of several errors in one request, DynamoDB does not say which it tells.
    let alone = vec((Just(Table(0)), vec(key(), 1)), 1);
    prop_oneof![4 => right, 1 => alone].prop_map(|wanted| {
        let mut items = BTreeMap::new();
        for (table, keys) in wanted {
            let keys: Vec<_> = keys.iter().map(|key| key.of(table)).collect();
            items.insert(table.name(), json!({"Keys": keys, "ConsistentRead": true}));
        }
        let keys = items
            .values()
            .map(|keys| keys["Keys"].as_array().unwrap().len());
        Request {
            operation: "BatchGetItem",
            operations: keys.sum(),
            body: json!({ "RequestItems": items }),
        }
    })
}

#[derive(Clone, Debug)]
enum Statement {
    Insert(BTreeMap<String, Json>),
    Update(
        Vec<(Name, Json)>,
        Vec<Name>,
        Vec<(Name, &'static str, Json)>,
    ),
}

/// A statement, and which item it is about. Of several errors in one request, DynamoDB does not say which it tells.
fn statement(is_alone: bool) -> impl Strategy<Value = (String, Json)> {
    let equal = (name(), select(["=", "<>"].as_slice()), value());
    let order = (name(), select(["<", ">="].as_slice()), ordered());
    let order = order.prop_map(|(name, sign, [value, _])| (name, sign, value));
    let only_if = prop_oneof![equal, order];

    let likely = prop_oneof![
        (0_u8..3).prop_map(|owner| ("owner", json!({ "S": format!("{owner:032x}") }))),
        select(["INPROGRESS", "COMPLETED"].as_slice())
            .prop_map(|status| ("status", json!({ "S": status }))),
    ];
    let what = prop_oneof![
        attributes().prop_map(|item| (Statement::Insert(item), Vec::new())),
        (
            vec((name(), value()), 1..3),
            vec(name(), 0..2),
            vec(only_if, 0..2),
            vec(likely, 0..2),
        )
            .prop_map(|(set, remove, only_if, likely)| (
                Statement::Update(set, remove, only_if),
                likely
            )),
    ];
    (
        table(),
        key(),
        what,
        any::<bool>(),
        prop::bool::weighted(0.02),
    )
        .prop_map(move |(table, key, (what, likely), shown, surplus)| {
            // What an empty key in a statement comes to is nowhere written down.
            let key = match key {
                KeyOf::Right(_) => key,
                KeyOf::Empty => KeyOf::Right(0),
                _ if !is_alone => KeyOf::Right(1),
                _ => key,
            };
            let key = key.of(table);
            let name = table.name();
            let item = format!("{name} {key:?}");
            let mut parameters = Vec::new();
            let text = match what {
                Statement::Insert(mut item) => {
                    item.extend(key);
                    let names: Vec<_> = item.keys().map(|name| format!("'{name}':?")).collect();
                    parameters.extend(item.into_values());
                    format!("INSERT INTO \"{name}\" VALUE {{{}}}", names.join(","))
                }
                Statement::Update(mut set, mut remove, only_if) => {
                    let mut targets = BTreeSet::new();
                    set.retain(|(name, _)| targets.insert(name.plain()));
                    remove.retain(|name| targets.insert(name.plain()));
                    let mut text = format!("UPDATE \"{name}\"");
                    for (name, value) in set {
                        text.push_str(&format!(" SET {}=?", name.quoted()));
                        parameters.push(value);
                    }
                    for name in remove {
                        text.push_str(&format!(" REMOVE {}", name.quoted()));
                    }
                    let mut conditions: Vec<_> =
                        key.keys().map(|name| format!("\"{name}\"=?")).collect();
                    parameters.extend(key.into_values());
                    for (name, value) in likely {
                        conditions.push(format!("\"{name}\"=?"));
                        parameters.push(value);
                    }
                    for (name, sign, value) in only_if {
                        conditions.push(format!("{}{sign}?", name.quoted()));
                        parameters.push(value);
                    }
                    format!("{text} WHERE {}", conditions.join(" AND "))
                }
            };
            if surplus {
                parameters.push(json!({ "N": "1" }));
            }
            let mut request = json!({"Statement": text, "Parameters": parameters});
            if shown {
                request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD".into();
            }
            (item, request)
        })
}

fn statements() -> impl Strategy<Value = Request> {
    let all = prop_oneof![
        9 => vec(statement(false), 1..6),
        1 => vec(statement(true), 1),
    ];
    (all, any::<bool>()).prop_map(|(mut statements, counted)| {
        // DynamoDB refuses two on one item, and not everyone does.
        let mut items = BTreeSet::new();
        statements.retain(|(item, _)| items.insert(item.clone()));
        let statements: Vec<_> = statements.into_iter().map(|(_, one)| one).collect();
        let operations = statements.len();
        let mut body = json!({ "Statements": statements });
        if counted {
            body["ReturnConsumedCapacity"] = "TOTAL".into();
        }
        Request {
            operation: "BatchExecuteStatement",
            body,
            operations,
        }
    })
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        5 => alone(),
        3 => transaction(),
        4 => statements(),
        1 => get(),
        1 => batch_get(),
    ]
}

/// Deletes all that requests of these may have made, in one request, which counts for nothing.
pub(crate) fn deletes() -> Request {
    let tables = (0..TABLES.len()).map(Table);
    let keys = tables.flat_map(|table| (0..KEYS).map(move |key| (table, key)));
    let deletes = keys
        .map(|(table, key)| json!({"Delete": {"TableName": table.name(), "Key": table.key(key)}}));
    let deletes: Vec<_> = deletes.collect();
    Request {
        operation: "TransactWriteItems",
        operations: 0,
        body: json!({ "TransactItems": deletes }),
    }
}
