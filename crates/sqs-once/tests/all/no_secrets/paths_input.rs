//! Paths of invalid messages.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use sqs_once::body::{AsyncDecode, Auto, Bytes, EventBridge, S3, Sns};
use sqs_once::consumer::Runnable;
use sqs_once::extract::Message;
use sqs_once::key::{JmesPath, JsonPointer, KeyError, MessageAttribute};
use sqs_once::policy::{MissingKey, PayloadMismatch, RouteBy};
use sqs_once::{Consumer, HandlerError, ResultExt, consumer, consumer_with, router};

use crate::no_secrets::world::{Order, World, id, order, record};

pub(crate) async fn not_json() {
    let world = World::new();
    let bodies = ["canary", "{\"id\": canary}", "{\"canary\": \"", "\"canary"];
    world.invoke(&world.recording(), bodies).await;
}

/// A payload whose error quotes the rejected value.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Picky;

impl TryFrom<String> for Picky {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Err(format!("invalid value: {text}, expected another"))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum Strict {
    #[allow(dead_code, reason = "nothing is ever one")]
    Order { id: u64 },
}

pub(crate) async fn another_shape() {
    let world = World::new();
    let bodies = [
        "\"canary\"",
        "[\"canary\"]",
        "{\"id\": \"canary\"}",
        "{\"id\": {\"canary\": 1}, \"card\": 1}",
    ];
    world.invoke(&world.recording(), bodies).await;
    let picky = consumer::<Picky>()
        .key(|_: &Picky| 1)
        .handler(async |_: Picky| {});
    world.invoke(&world.consumer(picky), ["\"canary\""]).await;
    let strict = consumer::<Strict>()
        .key(|_: &Strict| 1)
        .handler(async |_: Strict| {});
    let bodies = [
        "{\"canary\": 1}",
        "{\"Order\": {\"canary\": 1}}",
        "{\"Order\": {\"id\": \"canary\"}}",
    ];
    world.invoke(&world.consumer(strict), bodies).await;
}

pub(crate) async fn not_base64() {
    let world = World::new();
    let bytes = consumer_with(Bytes)
        .key(MessageAttribute::new("card"))
        .handler(async |_: Vec<u8>| {});
    let bodies = ["canary!", "Y2FuYXJ5"];
    world.invoke(&world.consumer(bytes), bodies).await;
}

fn enveloped(world: &World) -> [Consumer; 4] {
    [
        world.recording().envelope(Sns),
        world.recording().envelope(EventBridge),
        world.recording().envelope(S3),
        world.recording().envelope(Auto),
    ]
}

pub(crate) async fn unusable_envelopes() {
    let world = World::new();
    let topic = "arn:aws:sns:eu-central-1:123456789012:orders";
    let bodies = [
        json!({ "Type": "Notification", "TopicArn": topic, "Message": { "canary": 1 } }),
        json!({ "Type": "Notification", "TopicArn": topic, "Message": "canary", "Subject": "canary" }),
        json!({ "Type": "SubscriptionConfirmation", "TopicArn": topic, "SubscribeURL": "https://canary", "Token": "canary" }),
        json!({ "version": "0", "id": "e-1", "detail-type": "canary", "source": "canary", "detail": null }),
        json!({ "version": "0", "id": 7, "detail-type": "canary", "source": "canary", "detail": "canary" }),
        json!({ "Records": [{ "eventSource": "aws:s3", "eventName": "canary", "s3": "canary" }] }),
        json!({ "Records": [{ "eventSource": "aws:s3", "s3": { "bucket": { "name": "canary" }, "object": { "key": "%ff" } } }] }),
        json!({ "Records": [{ "eventSource": "aws:s3" }, { "eventSource": "aws:s3", "s3": "canary" }] }),
    ];
    let bodies = bodies.map(|body| body.to_string());
    for consumer in enveloped(&world) {
        world.invoke(&consumer, &bodies).await;
    }
}

pub(crate) async fn ignored() {
    let world = World::new();
    let test = json!({ "Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "canary", "RequestId": "canary" });
    for consumer in enveloped(&world) {
        world.invoke(&consumer, [test.to_string()]).await;
    }
}

fn keyless(world: &World) -> Consumer {
    let none = |_: &Order| None::<String>;
    world.consumer(consumer::<Order>().key(none).handler(async |_: Order| {}))
}

pub(crate) async fn missing_key() {
    let world = World::new();
    for missing in [MissingKey::Terminal, MissingKey::Retry] {
        let consumer = keyless(&world).missing_key(missing);
        world.orders(&consumer, ["a"]).await;
    }
}

/// A decoder that waits. The length of the body decides how it ends.
struct Waiting;

impl AsyncDecode<Order> for Waiting {
    async fn decode(&self, body: &str, _: &Message) -> Result<Order, HandlerError> {
        tokio::task::yield_now().await;
        match body.len() % 4 {
            0 => panic!("cannot read {body}"),
            1 => Err(std::io::Error::other("the decoder's own words").into()),
            2 => Err("the decoder's own words").terminal(),
            _ => serde_json::from_str(body).map_err(|_| HandlerError::terminal("not an order")),
        }
    }
}

pub(crate) async fn waited_for() {
    let world = World::new();
    let waiting = consumer_with(Waiting).key(id).handler(async |_: Order| {});
    world
        .orders(&world.consumer(waiting), ["a", "ab", "abc", "abcd"])
        .await;
}

pub(crate) async fn unrouted() {
    let world = World::new();
    for by in [
        RouteBy::attribute("type"),
        RouteBy::field("/card"),
        RouteBy::field("/none"),
        RouteBy::function(|message| panic!("no route for {:?}", message.body())),
    ] {
        let route = consumer().key(id).handler(async |_: Order| {});
        let routes = router(by).route("other", route.namespace("test"));
        world
            .orders(&world.set_up(routes.into_consumer()), ["a"])
            .await;
    }
}

pub(crate) async fn unprotected() {
    let world = World::new();
    let consumer = keyless(&world).missing_key(MissingKey::ProcessUnprotected);
    world.orders(&consumer, ["a"]).await;
}

pub(crate) async fn unusable_keys() {
    let world = World::new();
    let long = |_: &Order| "canary".repeat(1000);
    let failing = |order: &Order| Err::<String, _>(format!("no key in {order:?}"));
    let panicking = |order: &Order| -> String { panic!("no key in {order:?}") };
    let blank = |_: &Order| ("canary", " ");
    let keyed = || consumer::<Order>();
    let handler = async |_: Order| {};
    for consumer in [
        keyed().key(long).handler(handler),
        keyed().key(failing).handler(handler),
        keyed().key(panicking).handler(handler),
        keyed().key(blank).handler(handler),
        keyed().key(JsonPointer::new("")).handler(handler),
        keyed().key(JmesPath::new("[id, card]")).handler(handler),
        keyed().key(JmesPath::new("abs(id)")).handler(handler),
        keyed()
            .key(id)
            .fingerprint(|_: &Order| Err::<String, _>("canary-fingerprint"))
            .handler(handler),
    ] {
        world.orders(&world.consumer(consumer), ["a"]).await;
    }
    crate::no_secrets::world::show(&KeyError::Extractor("canary".to_owned()));
}

pub(crate) async fn mismatch() {
    for mismatch in [
        PayloadMismatch::Terminal,
        PayloadMismatch::Warn,
        PayloadMismatch::Reject,
    ] {
        let world = World::new();
        let consumer = world.recording().payload_mismatch(mismatch);
        world.orders(&consumer, ["a"]).await;
        let other = order("a").replace("card\":\"canary-card", "card\":\"canary-other");
        world.invoke(&consumer, [&other, &order("a")]).await;
    }
}

pub(crate) async fn invalid_events() {
    let mut world = World::new();
    let mut unnamed = record(0, &order("a"));
    unnamed["messageId"] = json!(null);
    world.invoke_with(&world.recording(), vec![unnamed]).await;
    world.timeout = Duration::ZERO;
    world.orders(&world.recording(), ["a"]).await;
}
