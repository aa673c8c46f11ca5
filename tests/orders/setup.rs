//! What the real function binary says when its surroundings are wrong.

use std::sync::{Arc, Mutex};

use crate::support::{Answer, Bench, TIMEOUT, body, event, refusal, run, serve};
use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::{Value, json};
use sqs_once_local::Launch;

type Lines = Arc<Mutex<Vec<String>>>;

fn logging(launch: Launch) -> (Launch, Lines) {
    let lines = Lines::default();
    let into = Arc::clone(&lines);
    let launch = launch.on_line(move |line| into.lock().unwrap().push(line.to_owned()));
    (launch, lines)
}

#[tokio::test]
async fn a_store_that_refuses_is_told_at_the_start_and_once_for_the_batch_with_the_way_out_of_it() {
    let denied = json!({
        "__type": "com.amazon.coral.service#AccessDeniedException",
        "Message": "User is not authorized to perform: dynamodb:PartiQLInsert",
    });
    let denied = (StatusCode::BAD_REQUEST, denied.to_string());
    let denying = Router::new().route("/", post(async move || denied));
    for (variable, value, fix) in [
        ("SQS_ONCE_TABLE", "not-there", "SQS_ONCE_TABLE"),
        ("AWS_ENDPOINT_URL_DYNAMODB", &serve(denying).await, "role"),
        ("AWS_ACCESS_KEY_ID", "", "AWS_ACCESS_KEY_ID"),
    ] {
        let bench = Bench::new().await;
        let (launch, lines) = logging(bench.launch().env(variable, value));
        let orders = event("orders");
        let result = run(launch.start().await.unwrap(), &orders).await;
        assert_eq!(result.failures, orders.message_ids(), "{variable}");
        assert!(bench.payments.charges().is_empty(), "{variable}");
        let lines = lines.lock().unwrap();
        let mut errors: Vec<Value> = lines
            .iter()
            .flat_map(|it| serde_json::from_str(it))
            .collect();
        errors.retain(|line| line["target"] == "sqs_once::store");
        assert_eq!(errors.len(), 2, "{variable}: {errors:?}");
        for error in errors {
            assert_eq!(error["level"], "ERROR", "{variable}");
            assert!(error["error"].as_str().unwrap().contains(fix), "{error}");
        }
    }
}

#[tokio::test]
async fn missing_or_malformed_configuration_refuses_to_start_and_names_the_variable() {
    let bench = Bench::new().await;
    for (variable, value, expected) in [
        ("SQS_ONCE_TABLE", "", "DynamoDB table"),
        ("SQS_ONCE_CONCURRENCY", "many", "whole number"),
        ("SQS_ONCE_CONCURRENCY", "0", "whole number"),
        ("SQS_ONCE_RETENTION", "28 fortnights", "28d"),
        ("SQS_ONCE_LEASE_MARGIN", "3", "3s"),
        ("SQS_ONCE_LEASE_MARGIN", "999ms", "1s or more"),
        ("SQS_ONCE_DEADLINE_MARGIN", "-1s", "more than zero"),
        ("SQS_ONCE_NAMESPACE", "a#b", "`#`"),
        ("SQS_ONCE_DLQ_URL", "orders-dlq", "URL"),
        ("SQS_ONCE_LARGE_MESSAGES", "a b", "expected"),
        ("SQS_ONCE_REQUESTS", "several", "batched or single"),
        ("SQS_ONCE_DISABLED", "maybe", "true or false"),
        ("PAYMENTS_URL", "not a url", "https://"),
    ] {
        let said = refusal(bench.launch().env(variable, value)).await;
        for part in [variable, expected] {
            assert!(said.contains(part), "{variable}: {said}");
        }
    }
}

/// What stands in everything that no line may show.
const SECRET: &str = "canary";

/// An SQS that refuses everything, and quotes what it is asked.
async fn quoting() -> String {
    let refusing = async |asked: String| {
        let error =
            json!({ "__type": "com.amazonaws.sqs#InvalidMessageContents", "message": asked });
        (StatusCode::BAD_REQUEST, error.to_string())
    };
    serve(Router::new().fallback(refusing)).await
}

/// All lines of a function that handles orders of every kind, full of secrets, with these settings of its log.
async fn lines_with(variable: &str, value: &str) -> String {
    let bench = Bench::new().await;
    let sqs = quoting().await;
    bench.payments.answer("canary-refused", Answer::Status(402));
    bench.payments.answer("canary-late", Answer::Later);
    let bodies = ["a", "b", "refused", "late"].map(|id| {
        let mut body = body(&format!("canary-{id}"));
        body["customer_id"] = "canary-customer".into();
        body.to_string()
    });
    let broken = ["canary", r#"{"order_id": ["canary"]}"#].map(str::to_owned);
    let bodies = bodies.into_iter().chain(broken);
    let records = bodies.enumerate().map(|(at, body)| json!({
        "messageId": format!("m-{at}"), "receiptHandle": format!("canary-handle-{at}"), "body": body,
        "attributes": { "ApproximateReceiveCount": "1", "MessageGroupId": "canary-group" },
        "messageAttributes": { "card": { "stringValue": "canary-card", "dataType": "String" } },
        "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders",
    }));
    let event = json!({ "Records": records.collect::<Vec<_>>() }).to_string();
    let event = sqs_once_local::Event::parse(&event, "orders").unwrap();
    let launch = bench
        .launch()
        .env("SQS_ONCE_DLQ_URL", format!("{sqs}/123456789012/orders-dlq"))
        .env("AWS_ENDPOINT_URL_SQS", sqs);
    let (launch, lines) = logging(launch.env(variable, value));
    let function = launch.start().await.unwrap();
    // The second time most are duplicates.
    for _ in 0..2 {
        function.invoke(event.payload(), TIMEOUT).await.unwrap();
    }
    // What is no event at all.
    let refused = function.invoke(format!("\"{SECRET}\""), TIMEOUT).await;
    refused.unwrap_err();
    let records = function.stop().await;
    assert_eq!(records.len(), 2 * event.message_ids().len());
    let lines = lines.lock().unwrap();
    let is_refusal = |line: &String| line.contains("could not be moved");
    assert!(
        lines.iter().any(is_refusal),
        "the dead-letter queue refuses"
    );
    format!("{}\n{records:?}", lines.join("\n"))
}

#[tokio::test]
async fn no_log_line_holds_a_body_a_key_or_a_receipt_handle_even_at_the_lowest_level() {
    for variable in ["AWS_LAMBDA_LOG_LEVEL", "RUST_LOG"] {
        let lines = lines_with(variable, "TRACE").await;
        assert!(lines.contains("aws_"), "{variable} took effect");
        let found: Vec<_> = lines.lines().filter(|line| line.contains(SECRET)).collect();
        assert!(found.is_empty(), "{variable}: {found:#?}");
    }
}

#[tokio::test]
async fn only_who_names_the_runtime_or_the_sdk_in_the_filter_is_shown_what_they_send() {
    for named in ["info,lambda_runtime=trace", "info,aws_=trace"] {
        let lines = lines_with("RUST_LOG", named).await;
        assert!(lines.contains(SECRET), "{named}");
    }
}
