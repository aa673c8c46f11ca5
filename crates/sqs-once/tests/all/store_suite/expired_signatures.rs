//! Requests that AWS refuses because of the time of their signature, usual after Lambda has frozen the function.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use lambda_runtime::Context;
use serde_json::json;
use sqs_once::store::Store;
use sqs_once::store::StoreErrorKind::AccessDenied;
use sqs_once::{Consumer, DynamoDbStore, HandlerError, ResultExt};
use sqs_once_local::TableDescription;

use crate::store_suite::support::{is_written, new_claims, output, process_with_table, store_at};
use crate::support::dynamodb::{config, local};
use crate::support::wire::{Turn, Wire};
use crate::support::{DLQ, Order, failures, invoke, one, orders};

const EXPIRED: &str = "Signature expired: 20260921T140000Z is now earlier than 20260921T141000Z (20260921T141500Z - 5 min.)";
const EARLY: &str = "Signature not yet current: 20260921T142230Z is still later than 20260921T142000Z (20260921T141500Z + 5 min.)";
const WRONG: &str =
    "The request signature we calculated does not match the signature you provided.";
const IN_A_PROCESS: &str = "in_a_process_whose_clients_come_from_the_environment";
const DLQ_VARIABLE: &str = "SQS_ONCE_DLQ_URL";

fn refusal(message: &str) -> Turn {
    let code = "com.amazon.coral.service#InvalidSignatureException";
    let refusal = json!({ "__type": code, "message": message });
    Turn::Answer(400, refusal.to_string())
}

#[tokio::test]
async fn an_expired_signature_is_transient_and_a_wrong_one_is_denied_access() {
    for (message, is_transient) in [(EXPIRED, true), (EARLY, true), (WRONG, false)] {
        let wire = Wire::always(refusal(message)).await;
        for count in [1, 3] {
            let claims = new_claims(count);
            for claimed in store_at(&wire.endpoint()).claim(&claims).await {
                let error = claimed.unwrap_err();
                assert_eq!(error.is_transient(), is_transient, "{error}");
                assert_eq!(error.is_permanent(), !is_transient, "{error}");
                assert_eq!(error.kind() == AccessDenied, !is_transient, "{error}");
                assert!(error.to_string().contains(message), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_whose_requests_have_expired_signs_them_again() {
    let local = local(&TableDescription::default()).await;
    let wire = Wire::to(&local.endpoint()).await;
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = config(&wire.endpoint()).retry_config(RetryConfig::disabled());
    let client = Client::from_conf(config.http_client(http).build());
    let store = DynamoDbStore::new(client, TableDescription::default().name);
    let handler = orders().call(async |_: Order| {}).namespace("test");
    let consumer = Consumer::new(handler).store(store);
    // The claim, its retry, and the completion.
    wire.next([refusal(EXPIRED), Turn::Pass, refusal(EARLY)]);
    let answer = invoke(&consumer, &one("o-1"), Context::default()).await;
    assert_eq!(failures(&answer), [""; 0]);
}

#[tokio::test]
async fn in_a_process_whose_clients_come_from_the_environment() {
    if std::env::var_os(DLQ_VARIABLE).is_none() {
        return;
    }
    let store = DynamoDbStore::from_env().await.unwrap();
    let claimed = store.claim(&new_claims(1)).await;
    assert!(is_written(&claimed[0]), "{claimed:?}");
    let refusing = async |_: Order| Err::<(), HandlerError>("no such card".into()).terminal();
    let handler = orders().call(refusing).namespace("test");
    let consumer = Consumer::new(handler).store(store);
    let answer = invoke(&consumer, &one("o-1"), Context::default()).await;
    assert_eq!(failures(&answer), [""; 0]);
}

#[tokio::test]
async fn the_clients_from_the_environment_sign_again() {
    let local = local(&TableDescription::default()).await;
    let dynamodb = Wire::to(&local.endpoint()).await;
    dynamodb.next([refusal(EXPIRED), refusal(EARLY)]);
    let moved = json!({ "MessageId": "copy" }).to_string();
    let sqs = Wire::always(Turn::Answer(200, moved)).await;
    sqs.next([refusal(EXPIRED), refusal(EARLY)]);
    let endpoint = dynamodb.endpoint();
    let mut process = process_with_table(module_path!(), IN_A_PROCESS, &endpoint);
    process
        .env(DLQ_VARIABLE, DLQ)
        .env("AWS_ENDPOINT_URL_SQS", sqs.endpoint());
    let ended = output(process).await;
    assert!(ended.status.success(), "{ended:?}");
    let moves = sqs.seen().into_iter().filter(|seen| seen == "SendMessage");
    assert_eq!(moves.count(), 3);
}
