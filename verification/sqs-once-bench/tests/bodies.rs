//! The peak memory of a batch whose bodies are in S3.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;

use aws_sdk_s3::config::http::{HttpRequest, HttpResponse};
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::primitives::SdkBody;
use aws_sdk_s3::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use serde_json::{Value, json};
use sqs_once::body::LargeMessages;
use sqs_once::store::StoreErrorKind;
use sqs_once::testing::{Bench, Event, Operation, Record};
use sqs_once::{Consumer, Handler, HandlerError};
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

const BODY: usize = 100_000;
const CONCURRENCY: usize = 2;
const RECORDS: usize = 100;
/// Enough for pauses of a second, during which handlers could go on.
const SLOW: usize = 60;
/// The documented promise is 2 × the concurrency. Here each body is in memory twice, as text and as payload, and the
/// records take the rest.
const BODIES_AT_MOST: usize = 8 * CONCURRENCY;

/// Answers each request with an order of its object's name, whose body has `BODY` bytes.
#[derive(Clone, Debug)]
struct Bodies;

impl HttpConnector for Bodies {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let path = request.uri().split('?').next().unwrap();
        let name = path.rsplit('/').next().unwrap();
        let body = json!({ "id": name, "text": "x".repeat(BODY) }).to_string();
        let answer = HttpResponse::new(200.try_into().unwrap(), SdkBody::from(body));
        HttpConnectorFuture::ready(Ok(answer))
    }
}

fn settings() -> LargeMessages {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .http_client(http_client_fn(|_, _| SharedHttpConnector::new(Bodies)))
        .force_path_style(true)
        .build();
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders";
    LargeMessages::for_queue(queue, "bodies/*").client(Client::from_conf(config))
}

fn orders() -> Handler {
    Handler::json::<Value>()
        .key(|order: &Value| order["id"].to_string())
        .call(async |_: Value| sleep(SECOND / 10).await)
        .namespace("bodies")
}

/// The peak while a batch is handled, without the event. `slow` is how many requests to complete keys the store refuses.
fn peak(handler: Handler, slow: usize, names: impl Fn(usize) -> String) -> usize {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let consumer = Consumer::new(handler).large_messages(settings());
    let bench = Bench::new(consumer.concurrency(CONCURRENCY)).timeout(900 * SECOND);
    let store = bench.store();
    store.fail(Operation::Complete, StoreErrorKind::Throttled, slow);
    let event = Event::new((0..RECORDS).map(|at| {
        let class = "software.amazon.payloadoffloading.PayloadS3Pointer";
        Record::json(&json!([class, { "s3BucketName": "bodies", "s3Key": names(at) }]))
    }));
    let _profiler = dhat::Profiler::builder().testing().build();
    let answer = runtime.block_on(bench.run(&event));
    answer.assert_all_acknowledged();
    dhat::HeapStats::get().max_bytes
}

/// A single test, because the peak covers the whole process.
#[test]
fn a_batch_holds_no_more_bodies_than_its_concurrency_allows() {
    let other = |at: usize| format!("o-{at}");
    let with_hook = || {
        orders().on_done(async |_| {
            sleep(SECOND / 3).await;
            Ok::<_, HandlerError>(())
        })
    };
    for (what, peak) in [
        ("other records", peak(orders(), 0, other)),
        ("copies", peak(orders(), 0, |_| "o-1".to_owned())),
        ("a slow hook", peak(with_hook(), 0, other)),
        ("a slow store", peak(orders(), SLOW, other)),
        ("a slow store, then a hook", peak(with_hook(), SLOW, other)),
    ] {
        let bodies = peak / BODY;
        assert!(
            bodies <= BODIES_AT_MOST,
            "{what}: {bodies} bodies, at most {BODIES_AT_MOST}"
        );
    }
}
