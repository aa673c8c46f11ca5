use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get;
use serde_json::json;
use sqs_once::body::LargeMessages;
use sqs_once::sdk::s3::config::{BehaviorVersion, Credentials, Region};
use sqs_once::sdk::s3::{Client, Config};
use sqs_once::testing::{Bench, Event, Record};

use super::consumer;

/// A stand-in for S3 with one object.
async fn bodies() -> LargeMessages {
    let object = async |Path((bucket, key)): Path<(String, String)>| match (&*bucket, &*key) {
        ("bodies", "catalogues/c-7") => {
            let items = vec!["a new item"; 100_000];
            Ok(json!({ "catalogue_id": "c-7", "items": items }).to_string())
        }
        _ => Err((
            StatusCode::NOT_FOUND,
            "<Error><Code>NoSuchKey</Code></Error>",
        )),
    };
    let router = Router::new().route("/{bucket}/{*key}", get(object));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(url)
        .force_path_style(true)
        .build();
    let queue = "arn:aws:sqs:eu-central-1:123456789012:orders";
    LargeMessages::for_queue(queue, "bodies/catalogues/*").client(Client::from_conf(config))
}

#[tokio::test]
async fn a_catalogue_that_comes_twice_is_published_once() {
    let bench = Bench::new(consumer(bodies().await));
    let event = Event::new([Record::text(include_str!("event.json"))]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
}

#[tokio::test]
async fn a_body_that_is_gone_is_terminal_and_a_small_message_needs_no_bucket() {
    let bench = Bench::new(consumer(bodies().await));
    let gone = include_str!("event.json").replace("c-7", "c-8");
    let small = json!({ "catalogue_id": "c-9", "items": [] }).to_string();
    let event = Event::new([Record::text(gone), Record::text(small)]);
    let answer = bench.run(event).await;
    answer.assert_terminal("m-1").assert_processed("m-2");
}
