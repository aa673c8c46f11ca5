//! Tests a real process that uses the real Lambda runtime.

use crate::support::{LIMIT, scripted};
use serde_json::{Value, json};
use sqs_once_local::{Function, InvokeError, LocalDynamoDb};
use std::sync::{Arc, Mutex};

async fn invoke(function: &Function, event: Value) -> Result<Value, InvokeError> {
    let answer = function.invoke(event.to_string(), LIMIT).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

#[tokio::test]
async fn a_function_sees_lambdas_environment_and_only_loopback_endpoints() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let function = scripted()
        .dynamodb(&dynamodb)
        .memory_mb(256)
        .env("SQS_ONCE_TABLE", "orders-table")
        .start()
        .await
        .unwrap();
    let expected = json!({
        "AWS_LAMBDA_FUNCTION_NAME": "scripted",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "256",
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_LOG_FORMAT": "JSON",
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb.endpoint(),
        "AWS_PROFILE": null,
        "SQS_ONCE_TABLE": "orders-table",
    });
    let names: Vec<&String> = expected.as_object().unwrap().keys().collect();
    let seen = invoke(&function, json!({"environment": names})).await;
    assert_eq!(seen.unwrap(), expected);
}

#[tokio::test]
async fn record_lines_are_collected_and_other_lines_are_passed_on() {
    let others = Arc::new(Mutex::new(Vec::new()));
    let seen = others.clone();
    let function = scripted()
        .on_line(move |line| seen.lock().unwrap().push(line.to_owned()))
        .start()
        .await
        .unwrap();
    let lines = [
        r#"{"message":"message processed","target":"sqs_once::record","outcome":"processed","message_id":"m-1","duration_ms":1.25}"#,
        r#"{"message":"charged","target":"orders"}"#,
        r#"{"message":"in progress","target":"sqs_once::record","outcome":"in_progress","message_id":"m-2","code":"in-progress","reason":"another owner"}"#,
        r#"{"message":"mentions sqs_once::record","target":"orders"}"#,
        r#"{"target":"sqs_once::record","outcome":"unheard of","message_id":"m-3"}"#,
    ];
    invoke(&function, json!({"print": lines})).await.unwrap();
    let records = function.stop().await;

    let outcomes = records
        .iter()
        .map(|line| (&*line.message_id, &*line.outcome));
    let outcomes: Vec<_> = outcomes.collect();
    // Another version of the library may have more outcomes.
    let expected = [
        ("m-1", "processed"),
        ("m-2", "in_progress"),
        ("m-3", "unheard of"),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(records[0].duration_ms, Some(1.25));
    assert_eq!(records[1].code.as_deref(), Some("in-progress"));
    assert_eq!(records[1].reason.as_deref(), Some("another owner"));
    assert_eq!(*others.lock().unwrap(), [lines[1], lines[3]]);
}

#[tokio::test]
async fn a_function_that_ends_is_reported_with_its_status_and_last_lines_and_stays_dead() {
    let crash = json!({"exit": ["out of cheese", 3]});
    let at_start = scripted().env("AT_START", "exit");
    for (launch, event, expected, lines) in [
        (scripted(), crash, "exit status: 3", &["out of cheese"][..]),
        (scripted(), json!("abort"), "SIGABRT", &[]),
        (at_start, json!({"answer": 1}), "exit status: 7", &[]),
    ] {
        let function = launch.start().await.unwrap();
        let error = invoke(&function, event).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        let again = invoke(&function, json!({"answer": 1})).await.unwrap_err();
        for error in [error, again] {
            let is_told =
                matches!(&error, InvokeError::Exited { last_lines, .. } if last_lines == lines);
            assert!(is_told, "{error:?}");
        }
    }
}
