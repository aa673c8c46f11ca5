//! Tests the Runtime API with the requests of a runtime.

use crate::support::{HttpResponse, LIMIT, http};
use axum::body::Bytes;
use serde_json::json;
use sqs_once_local::{InvokeError, RuntimeApi};
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SHORT: Duration = Duration::from_millis(200);

async fn start() -> RuntimeApi {
    RuntimeApi::start("orders").await.unwrap()
}

async fn post(api: &RuntimeApi, path: &str, headers: &str, body: &str) -> HttpResponse {
    let path = format!("/2018-06-01/runtime/{path}");
    http(api.address(), "POST", &path, headers, body).await
}

/// Takes the next event and returns it with its request id.
async fn take(api: &RuntimeApi) -> (String, HttpResponse) {
    let path = "/2018-06-01/runtime/invocation/next";
    let next = http(api.address(), "GET", path, "", "").await;
    let id = next.header("Lambda-Runtime-Aws-Request-Id").unwrap();
    (id.to_owned(), next)
}

/// Reports the end of an invocation: `end` is `response` or `error`. Returns the status.
async fn end(api: &RuntimeApi, id: &str, end: &str, body: &str) -> u16 {
    let path = format!("invocation/{id}/{end}");
    post(api, &path, "", body).await.status
}

/// Answers as a runtime that names its invocation.
async fn end_of(api: &RuntimeApi, id: &str, invocation: &str, end: &str) -> HttpResponse {
    let headers = format!("Lambda-Runtime-Invocation-Id: {invocation}\r\n");
    post(api, &format!("invocation/{id}/{end}"), &headers, "{}").await
}

/// The result of an invocation that ends with this body, and the status for the function.
async fn ended(kind: &str, body: &str) -> (Result<Bytes, InvokeError>, u16) {
    let api = start().await;
    let function = async {
        let (id, _) = take(&api).await;
        end(&api, &id, kind, body).await
    };
    tokio::join!(api.invoke("{}", LIMIT), function)
}

#[tokio::test]
async fn the_function_is_told_its_deadline_its_name_and_its_trace() {
    let api = start().await;
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let function = async {
        let before = now();
        let (id, next) = take(&api).await;
        let header = |name| next.header(name).unwrap();
        let deadline = header("Lambda-Runtime-Deadline-Ms").parse().unwrap();
        let deadline = Duration::from_millis(deadline);
        assert!(before + LIMIT - Duration::from_millis(1) <= deadline && deadline <= now() + LIMIT);
        let arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders";
        assert_eq!(header("Lambda-Runtime-Invoked-Function-Arn"), arn);
        assert!(header("Lambda-Runtime-Trace-Id").starts_with("Root=1-"));
        end(&api, &id, "response", "{}").await;
    };
    let (answer, ()) = tokio::join!(api.invoke("{}", LIMIT), function);
    answer.unwrap();
}

#[tokio::test]
async fn an_error_is_reported_with_its_type_and_message_or_as_it_is() {
    let known = r#"{"errorType": "BadThing", "errorMessage": "it broke", "stackTrace": []}"#;
    for (body, message) in [(known, "BadThing: it broke"), ("oh no", "oh no")] {
        let (answer, status) = ended("error", body).await;
        assert_eq!(status, 202);
        let error = answer.unwrap_err();
        assert!(matches!(&error, InvokeError::Function(_)), "{error:?}");
        let expected = format!("the function answered with an error: {message}");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn an_init_error_ends_the_wait_for_the_function() {
    let api = start().await;
    let body = r#"{"errorType": "Runtime.InitError", "errorMessage": "SQS_ONCE_TABLE is not set"}"#;
    let function = post(&api, "init/error", "", body);
    let (answer, response) = tokio::join!(api.invoke("{}", LIMIT), function);
    assert_eq!(response.status, 202);
    let error = answer.unwrap_err();
    assert!(
        matches!(error, InvokeError::Init(error) if error.error_message == "SQS_ONCE_TABLE is not set")
    );
}

#[tokio::test]
async fn a_function_that_never_asks_for_its_event_is_told_from_one_that_never_answers() {
    let api = start().await.init_limit(SHORT);
    let error = api.invoke("{}", LIMIT).await.unwrap_err();
    assert!(matches!(error, InvokeError::NotTaken { after: SHORT }));

    let api = start().await;
    let (answer, _) = tokio::join!(api.invoke("{}", SHORT), take(&api));
    let error = answer.unwrap_err();
    assert!(matches!(error, InvokeError::TimedOut { after: SHORT }));
}

#[tokio::test]
async fn an_event_nobody_waits_for_any_more_is_not_handed_out() {
    let api = start().await;
    let abandoned = tokio::time::timeout(SHORT, api.invoke("abandoned", LIMIT));
    abandoned.await.unwrap_err();
    let (_, (_, next)) = tokio::join!(api.invoke("wanted", SHORT), take(&api));
    assert_eq!(next.body, "wanted");
}

#[tokio::test]
async fn the_late_answer_of_an_invocation_that_timed_out_is_gone() {
    let api = start().await;
    for kind in ["response", "error"] {
        let (answer, (id, next)) = tokio::join!(api.invoke("{}", SHORT), take(&api));
        let is_late = matches!(answer, Err(InvokeError::TimedOut { .. }));
        assert!(is_late, "{kind}");
        let invocation = next.header("Lambda-Runtime-Invocation-Id").unwrap();
        let late = end_of(&api, &id, invocation, kind).await;
        assert_eq!(late.status, 410, "{kind}");
        let gone = json!({"errorType": "InvokeTimeout", "errorMessage": "Invoke timeout"});
        assert_eq!(late.body, gone.to_string());
        // An older runtime does not name its invocation.
        let (_, (id, _)) = tokio::join!(api.invoke("{}", SHORT), take(&api));
        assert_eq!(end(&api, &id, kind, "{}").await, 410, "{kind}");
    }
}

#[tokio::test]
async fn an_answer_that_names_another_invocation_is_gone_and_the_running_one_keeps_waiting() {
    let api = start().await;
    let mut seen = HashSet::new();
    for kind in ["response", "error"] {
        let function = async {
            let (id, next) = take(&api).await;
            let own = next.header("Lambda-Runtime-Invocation-Id").unwrap();
            assert!(own != id && seen.insert(own.to_owned()), "{own} is not new");
            assert_eq!(end_of(&api, &id, "another", kind).await.status, 410);
            end_of(&api, &id, own, kind).await.status
        };
        let (answer, status) = tokio::join!(api.invoke("{}", LIMIT), function);
        assert_eq!((answer.is_ok(), status), (kind == "response", 202));
    }
}

#[tokio::test]
async fn a_second_answer_is_refused() {
    let api = start().await;
    let function = async {
        let (id, _) = take(&api).await;
        let first = end(&api, &id, "response", "1").await;
        (first, end(&api, &id, "response", "2").await)
    };
    let (answer, statuses) = tokio::join!(api.invoke("{}", LIMIT), function);
    assert_eq!(answer.unwrap(), "1");
    assert_eq!(statuses, (202, 400));
}

#[tokio::test]
async fn an_answer_above_lambdas_limit_is_refused_and_said_so() {
    let huge = "x".repeat(6 * 1024 * 1024 + 101);
    let (answer, status) = ended("response", &huge).await;
    let is_too_large = matches!(answer, Err(InvokeError::AnswerTooLarge { .. }));
    assert!(is_too_large, "{answer:?}");
    assert_eq!(status, 413);
}

#[tokio::test]
async fn overlapping_events_reach_the_function_and_get_their_own_answers_as_they_are() {
    let api = start().await;
    let event = r#"{"Records": []}"#;
    let function = async {
        let (first, next) = take(&api).await;
        assert_eq!((next.status, &*next.body), (200, event));
        let (second, _) = take(&api).await;
        // Answer in reverse order.
        assert_eq!(end(&api, &second, "response", "not even {JSON").await, 202);
        assert_eq!(end(&api, &first, "response", "\"first\"").await, 202);
    };
    let (first, second, ()) =
        tokio::join!(api.invoke(event, LIMIT), api.invoke("2", LIMIT), function);
    assert_eq!(first.unwrap(), "\"first\"");
    assert_eq!(second.unwrap(), "not even {JSON");
}
