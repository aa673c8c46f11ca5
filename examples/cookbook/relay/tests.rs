use std::time::SystemTime;

use aws_lambda_events::dynamodb::Event;
use sqs_once::sdk::sqs::Client;
use sqs_once::sdk::sqs::config::{BehaviorVersion, Config, Credentials, Region};
use sqs_once_local::{LocalSqs, QueueSettings, Queues};

use super::relay;

fn sample() -> Event {
    serde_json::from_str(include_str!("event.json")).unwrap()
}

async fn queue() -> (LocalSqs, Client) {
    let mut queues = Queues::default();
    queues.create("orders", QueueSettings::default()).unwrap();
    let sqs = LocalSqs::start(queues).await.unwrap();
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "local"))
        .endpoint_url(sqs.endpoint())
        .http_client(aws_smithy_http_client::Builder::new().build_http());
    let client = Client::from_conf(config.build());
    (sqs, client)
}

#[tokio::test]
async fn the_same_part_of_the_stream_sends_its_message_again_with_the_same_key() {
    let (sqs, client) = queue().await;
    for _ in 0..2 {
        let url = sqs.url("orders");
        relay(&client, &url, sample()).await.unwrap();
    }
    let mut queues = sqs.queues();
    let received = queues.receive("orders", 10, SystemTime::now()).unwrap();
    let bodies: Vec<_> = received
        .iter()
        .map(|received| &received.message.body)
        .collect();
    // The message that was deleted from the outbox is not sent.
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[0].contains("o-1001"));
}

#[tokio::test]
async fn a_message_that_is_not_sent_fails_the_call_so_that_lambda_repeats_it() {
    let (sqs, client) = queue().await;
    let missing = sqs.url("missing");
    relay(&client, &missing, sample()).await.unwrap_err();
}
