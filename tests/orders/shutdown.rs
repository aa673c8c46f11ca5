//! Graceful shutdown of the real function binary.

use std::process::{Command, Stdio};

use crate::support::{Bench, TABLE, TIMEOUT, order};
use sqs_once_local::{BatchResponse, RuntimeApi};

#[tokio::test]
async fn a_function_asked_to_end_answers_the_event_at_hand_first() {
    let bench = Bench::new().await;
    let runtime_api = RuntimeApi::start("orders").await.unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orders"))
        .env("AWS_LAMBDA_RUNTIME_API", runtime_api.address().to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "orders")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        .env("AWS_REGION", "eu-central-1")
        .env("AWS_ACCESS_KEY_ID", "local")
        .env("AWS_SECRET_ACCESS_KEY", "local")
        .env("AWS_ENDPOINT_URL_DYNAMODB", bench.dynamodb.endpoint())
        .env("SQS_ONCE_TABLE", TABLE)
        .env("PAYMENTS_URL", &bench.payments.url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();

    let order = order("o-1");
    let gate = bench.payments.hold("o-1");
    let invocation = runtime_api.invoke(order.payload(), TIMEOUT);
    let end = async {
        bench.payments.charged().await;
        let asked = Command::new("kill").arg(process.id().to_string()).status();
        assert!(asked.unwrap().success());
        gate.notify_one();
    };
    let (answer, ()) = tokio::join!(invocation, end);
    let response = BatchResponse::parse(&answer.unwrap(), order.message_ids()).unwrap();
    assert!(response.failures().is_empty());
    let status = tokio::task::spawn_blocking(move || process.wait());
    let status = tokio::time::timeout(TIMEOUT, status).await;
    let status = status.expect("it must end").unwrap();
    assert!(status.unwrap().success());
}
