//! Tests the Runtime API with the requests of a runtime.

use crate::support::{HttpResponse, http};
use sqs_once_local::{InvokeError, RuntimeApi};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

async fn get(api: &RuntimeApi, path: &str) -> HttpResponse {
    http(api.address(), "GET", path, "", "").await
}

async fn post(api: &RuntimeApi, path: &str, body: &str) -> HttpResponse {
    http(api.address(), "POST", path, "", body).await
}

/// Takes the next event and returns it with its request id.
async fn take(api: &RuntimeApi) -> (String, HttpResponse) {
    let next = get(api, "/2018-06-01/runtime/invocation/next").await;
    (
        next.header("Lambda-Runtime-Aws-Request-Id")
            .unwrap()
            .to_owned(),
        next,
    )
}

#[tokio::test]
async fn an_event_reaches_the_function_and_its_answer_comes_back_as_it_is() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (id, next) = take(&api).await;
        assert_eq!(next.status, 200);
        assert_eq!(next.body, r#"{"Records": []}"#);
        let path = format!("/2018-06-01/runtime/invocation/{id}/response");
        assert_eq!(post(&api, &path, "not even {JSON").await.status, 202);
    };
    let (answer, ()) = tokio::join!(api.invoke(r#"{"Records": []}"#, LONG), function);
    assert_eq!(answer.unwrap(), "not even {JSON");
}

#[tokio::test]
async fn the_function_is_told_its_deadline_its_name_and_its_trace() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let function = async {
        let before = now();
        let (id, next) = take(&api).await;
        let deadline = Duration::from_millis(
            next.header("Lambda-Runtime-Deadline-Ms")
                .unwrap()
                .parse()
                .unwrap(),
        );
        assert!(before + LONG - Duration::from_millis(1) <= deadline && deadline <= now() + LONG);
        assert_eq!(
            next.header("Lambda-Runtime-Invoked-Function-Arn"),
            Some("arn:aws:lambda:eu-central-1:123456789012:function:orders")
        );
        assert!(
            next.header("Lambda-Runtime-Trace-Id")
                .unwrap()
                .starts_with("Root=1-")
        );
        post(
            &api,
            &format!("/2018-06-01/runtime/invocation/{id}/response"),
            "{}",
        )
        .await;
    };
    let (answer, ()) = tokio::join!(api.invoke("{}", LONG), function);
    answer.unwrap();
}

#[tokio::test]
async fn an_error_is_reported_with_its_type_and_message() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (id, _) = take(&api).await;
        let body = r#"{"errorType": "BadThing", "errorMessage": "it broke", "stackTrace": []}"#;
        let path = format!("/2018-06-01/runtime/invocation/{id}/error");
        assert_eq!(post(&api, &path, body).await.status, 202);
    };
    let (answer, ()) = tokio::join!(api.invoke("{}", LONG), function);
    let error = answer.unwrap_err();
    assert!(matches!(&error, InvokeError::Function(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the function answered with an error: BadThing: it broke"
    );
}

#[tokio::test]
async fn an_error_in_no_known_form_is_passed_on_as_it_is() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (id, _) = take(&api).await;
        post(
            &api,
            &format!("/2018-06-01/runtime/invocation/{id}/error"),
            "oh no",
        )
        .await;
    };
    let (answer, ()) = tokio::join!(api.invoke("{}", LONG), function);
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the function answered with an error: oh no"
    );
}

#[tokio::test]
async fn an_init_error_ends_the_wait_for_the_function() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let body = r#"{"errorType": "Runtime.InitError", "errorMessage": "SQS_ONCE_TABLE is not set"}"#;
    let function = post(&api, "/2018-06-01/runtime/init/error", body);
    let (answer, response) = tokio::join!(api.invoke("{}", LONG), function);
    assert_eq!(response.status, 202);
    let error = answer.unwrap_err();
    assert!(
        matches!(error, InvokeError::Init(error) if error.error_message == "SQS_ONCE_TABLE is not set")
    );
}

#[tokio::test]
async fn a_function_that_never_asks_for_its_event_is_told_from_one_that_never_answers() {
    let api = RuntimeApi::start("orders").await.unwrap().init_limit(SHORT);
    let error = api.invoke("{}", LONG).await.unwrap_err();
    assert!(
        matches!(error, InvokeError::NotTaken { after: SHORT }),
        "{error:?}"
    );

    let api = RuntimeApi::start("orders").await.unwrap();
    let (answer, _) = tokio::join!(api.invoke("{}", SHORT), take(&api));
    let error = answer.unwrap_err();
    assert!(
        matches!(error, InvokeError::TimedOut { after: SHORT }),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_event_nobody_waits_for_any_more_is_not_handed_out() {
    let api = RuntimeApi::start("orders").await.unwrap();
    tokio::time::timeout(SHORT, api.invoke("abandoned", LONG))
        .await
        .unwrap_err();
    let (_, (_, next)) = tokio::join!(api.invoke("wanted", SHORT), take(&api));
    assert_eq!(next.body, "wanted");
}

#[tokio::test]
async fn an_answer_that_comes_late_or_twice_is_refused() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (id, _) = take(&api).await;
        let path = format!("/2018-06-01/runtime/invocation/{id}/response");
        (
            post(&api, &path, "1").await.status,
            post(&api, &path, "2").await.status,
        )
    };
    let (answer, statuses) = tokio::join!(api.invoke("{}", LONG), function);
    assert_eq!(answer.unwrap(), "1");
    assert_eq!(statuses, (202, 400));
}

#[tokio::test]
async fn an_answer_above_lambdas_limit_is_refused_and_said_so() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (id, _) = take(&api).await;
        let path = format!("/2018-06-01/runtime/invocation/{id}/response");
        let huge = "x".repeat(6 * 1024 * 1024 + 101);
        post(&api, &path, &huge).await.status
    };
    let (answer, status) = tokio::join!(api.invoke("{}", LONG), function);
    assert!(
        matches!(answer, Err(InvokeError::AnswerTooLarge { .. })),
        "{answer:?}"
    );
    assert_eq!(status, 413);
}

#[tokio::test]
async fn overlapping_events_get_their_own_answers() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let function = async {
        let (first, _) = take(&api).await;
        let (second, _) = take(&api).await;
        // Answer in reverse order.
        post(
            &api,
            &format!("/2018-06-01/runtime/invocation/{second}/response"),
            "\"second\"",
        )
        .await;
        post(
            &api,
            &format!("/2018-06-01/runtime/invocation/{first}/response"),
            "\"first\"",
        )
        .await;
    };
    let (first, second, ()) = tokio::join!(api.invoke("1", LONG), api.invoke("2", LONG), function);
    assert_eq!(first.unwrap(), "\"first\"");
    assert_eq!(second.unwrap(), "\"second\"");
}

#[tokio::test]
async fn an_internal_extension_can_register() {
    let api = RuntimeApi::start("orders").await.unwrap();
    let path = "/2020-01-01/extension/register";
    let headers = "Lambda-Extension-Name: helper\r\nContent-Type: application/json\r\n";
    let response = http(api.address(), "POST", path, headers, r#"{"events": []}"#).await;
    assert_eq!(response.status, 200);
    assert!(
        !response
            .header("Lambda-Extension-Identifier")
            .unwrap()
            .is_empty()
    );
    assert!(
        response.body.contains(r#""functionName":"orders""#),
        "{}",
        response.body
    );
}
