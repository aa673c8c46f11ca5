//! What DynamoDB refuses before it looks at any item, and other implementations let pass at times; and what it
//! remembers of transactions.

use std::time::Duration;

use dynamodb_for_tests::{Answer, KeyType, Schema, Tables};
use serde_json::{Value as Json, json};

fn tables() -> Tables {
    let mut tables = Tables::new();
    tables.create("orders", Schema::partition_key("id", KeyType::S));
    tables
}

fn send(tables: &mut Tables, operation: &str, body: &Json, at: u64) -> Answer {
    let body = body.to_string();
    tables.carry_out(operation, body.as_bytes(), Duration::from_secs(at))
}

/// The code of an error.
fn code(answer: &Answer) -> String {
    let body: Json = serde_json::from_str(&answer.body).unwrap();
    let kind = body["__type"].as_str().unwrap_or_default();
    kind.rsplit('#').next().unwrap().to_owned()
}

#[test]
fn an_expression_that_no_item_could_meet_is_refused_whatever_stands_there() {
    let conditions = [
        // A value without an order, where an order is asked for.
        ("#status < :map", json!({":map": {"M": {}}})),
        (
            "#status BETWEEN :a AND :flag",
            json!({":a": {"S": "a"}, ":flag": {"BOOL": true}}),
        ),
        (
            "#status BETWEEN :b AND :a",
            json!({":a": {"S": "a"}, ":b": {"S": "b"}}),
        ),
        // Compared with itself.
        ("#status = #status", json!({})),
        // What is not defined, or defined and not used, wherever it stands.
        (
            "#status = :a AND #status = :none",
            json!({":a": {"S": "a"}}),
        ),
        (
            "#status = :a",
            json!({":a": {"S": "a"}, ":unused": {"S": "b"}}),
        ),
        ("attribute_type(#status, :a)", json!({":a": {"S": "TEXT"}})),
        ("begins_with(#status, :one)", json!({":one": {"N": "1"}})),
        // A reserved word, and a condition that is none.
        ("#status = :a AND owner = :a", json!({":a": {"S": "a"}})),
        ("size(#status)", json!({})),
    ];
    for (condition, values) in conditions {
        let mut tables = tables();
        let mut put = json!({
            "TableName": "orders",
            "Item": {"id": {"S": "o-1"}},
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {"#status": "status"},
        });
        if values != json!({}) {
            put["ExpressionAttributeValues"] = values;
        }
        let answer = send(&mut tables, "PutItem", &put, 0);
        assert_eq!(code(&answer), "ValidationException", "{condition}");
        let transaction = json!({"TransactItems": [{"Put": put}]});
        let answer = send(&mut tables, "TransactWriteItems", &transaction, 0);
        assert_eq!(code(&answer), "ValidationException", "{condition}");
        assert_eq!(tables.items("orders").count(), 0, "{condition}");
    }
}

#[test]
fn an_attribute_is_changed_once_by_an_update() {
    let mut tables = tables();
    let update = json!({
        "TableName": "orders",
        "Key": {"id": {"S": "o-1"}},
        "UpdateExpression": "SET times = :one REMOVE times",
        "ConditionExpression": "attribute_exists(id)",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    });
    assert_eq!(
        code(&send(&mut tables, "UpdateItem", &update, 0)),
        "ValidationException"
    );
}

#[test]
fn an_item_is_changed_once_by_a_batch_of_statements() {
    let insert = json!({
        "Statement": "INSERT INTO \"orders\" VALUE {'id':?}",
        "Parameters": [{"S": "o-1"}],
    });
    let mut tables = tables();
    let batch = json!({"Statements": [insert, insert]});
    let answer = send(&mut tables, "BatchExecuteStatement", &batch, 0);
    assert_eq!(code(&answer), "ValidationException");
    assert_eq!(tables.items("orders").count(), 0);
}

#[test]
fn a_table_that_is_not_there_and_a_key_of_another_type_are_told_apart() {
    let get = |table: &str, key: Json| json!({"TableName": table, "Key": {"id": key}});
    let mut tables = tables();
    let missing = send(&mut tables, "GetItem", &get("none", json!({"S": "o-1"})), 0);
    assert_eq!(code(&missing), "ResourceNotFoundException");
    let other = send(&mut tables, "GetItem", &get("orders", json!({"N": "1"})), 0);
    assert_eq!(code(&other), "ValidationException");
    assert!(
        other
            .body
            .contains("provided key element does not match the schema")
    );
}

#[test]
fn a_transaction_s_token_is_remembered_for_ten_minutes() {
    let one_more = |by: &str| {
        json!({
            "ClientRequestToken": "token",
            "TransactItems": [{"Update": {
                "TableName": "orders",
                "Key": {"id": {"S": "o-1"}},
                "UpdateExpression": "ADD times :by",
                "ExpressionAttributeValues": {":by": {"N": by}},
            }}],
        })
    };
    let mut tables = tables();
    let mut send = |by: &str, at: u64| send(&mut tables, "TransactWriteItems", &one_more(by), at);
    assert_eq!(send("1", 0).status, 200);
    assert_eq!(send("1", 599).status, 200);
    assert_eq!(
        code(&send("2", 599)),
        "IdempotentParameterMismatchException"
    );
    assert_eq!(send("2", 600).status, 200);
    let times: Vec<_> = tables
        .items("orders")
        .map(|item| item["times"].clone())
        .collect();
    assert_eq!(serde_json::to_value(times).unwrap(), json!([{"N": "3"}]));
}
