//! Tests a real process that uses the real Lambda runtime.

use serde_json::{Value, json};
use sqs_once_local::{Function, InvokeError, Launch, LocalDynamoDb, StartError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(300);

/// The example `scripted`, which cargo builds along with the tests.
fn scripted() -> Launch {
    let test = std::env::current_exe().unwrap();
    let profile: PathBuf = test.ancestors().nth(2).unwrap().to_owned();
    Launch::new(profile.join("examples/scripted"))
}

async fn invoke(function: &Function, event: Value) -> Result<Value, InvokeError> {
    let answer = function.invoke(event.to_string(), LONG).await?;
    Ok(serde_json::from_slice(&answer).unwrap())
}

#[tokio::test]
async fn a_function_answers_one_event_after_the_other() {
    let function = scripted().start().await.unwrap();
    for answer in [json!({"batchItemFailures": []}), json!("text"), json!(null)] {
        assert_eq!(
            invoke(&function, json!({"answer": answer})).await.unwrap(),
            answer
        );
    }
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
    let seen = invoke(&function, json!({"environment": names}))
        .await
        .unwrap();
    assert_eq!(seen, expected);
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
        r#"{"message":"record processed","target":"sqs_once::record","outcome":"processed","message_id":"m-1","duration_ms":1.25}"#,
        r#"{"message":"charged","target":"orders"}"#,
        r#"{"message":"in progress","target":"sqs_once::record","outcome":"in_progress","message_id":"m-2","reason":"another owner"}"#,
        r#"{"message":"mentions sqs_once::record","target":"orders"}"#,
        r#"{"target":"sqs_once::record","outcome":"unheard of","message_id":"m-3"}"#,
    ];
    invoke(&function, json!({"print": lines})).await.unwrap();
    let records = function.stop().await;

    let outcomes: Vec<_> = records
        .iter()
        .map(|line| (line.message_id.as_str(), line.outcome.as_str()))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("m-1", "processed"),
            ("m-2", "in_progress"),
            // Another version of the library may have more outcomes.
            ("m-3", "unheard of")
        ]
    );
    assert_eq!(records[0].duration_ms, Some(1.25));
    assert_eq!(records[1].reason.as_deref(), Some("another owner"));
    assert_eq!(*others.lock().unwrap(), [lines[1], lines[3]]);
}

#[tokio::test]
async fn a_function_that_answers_with_an_error_is_reported_with_its_message() {
    let function = scripted().start().await.unwrap();
    let error = invoke(&function, json!({"fail": "the table is gone"}))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, InvokeError::Function(error) if error.error_message == "the table is gone"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_crashed_function_is_reported_with_its_exit_status_and_last_words() {
    let function = scripted().start().await.unwrap();
    let error = invoke(&function, json!({"exit": ["out of cheese", 3]}))
        .await
        .unwrap_err();
    let InvokeError::Exited { status, last_lines } = error else {
        panic!("{error:?}")
    };
    assert_eq!(status.code(), Some(3));
    assert_eq!(last_lines, ["out of cheese"]);
}

#[tokio::test]
async fn a_function_killed_by_a_signal_is_reported_with_the_signal() {
    let function = scripted().start().await.unwrap();
    let error = invoke(&function, json!("abort")).await.unwrap_err();
    assert!(error.to_string().contains("SIGABRT"), "{error}");
}

#[tokio::test]
async fn a_function_that_crashes_before_it_takes_its_event_is_reported_with_its_exit_status() {
    let function = scripted().env("AT_START", "exit").start().await.unwrap();
    let error = invoke(&function, json!({"answer": 1})).await.unwrap_err();
    assert!(
        matches!(error, InvokeError::Exited { status, .. } if status.code() == Some(7)),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_function_that_hangs_past_its_timeout_is_reported_as_timed_out() {
    let function = scripted().start().await.unwrap();
    let error = function
        .invoke(json!("hang").to_string(), SHORT)
        .await
        .unwrap_err();
    assert!(
        matches!(error, InvokeError::TimedOut { after: SHORT }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_function_that_hangs_at_its_start_is_reported_as_never_having_asked() {
    let function = scripted()
        .env("AT_START", "hang")
        .init_limit(SHORT)
        .start()
        .await
        .unwrap();
    let error = function.invoke("{}", LONG).await.unwrap_err();
    assert!(
        matches!(error, InvokeError::NotTaken { after: SHORT }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_dead_function_fails_later_events_too() {
    let function = scripted().start().await.unwrap();
    invoke(&function, json!({"exit": ["", 3]}))
        .await
        .unwrap_err();
    let error = invoke(&function, json!({"answer": 1})).await.unwrap_err();
    assert!(matches!(error, InvokeError::Exited { .. }), "{error:?}");
}

#[tokio::test]
async fn a_binary_that_is_not_there_is_named() {
    let error = Launch::new("no/such/binary").start().await.err().unwrap();
    assert!(matches!(&error, StartError::Spawn { .. }), "{error:?}");
    assert!(error.to_string().contains("no/such/binary"), "{error}");
}
