use serde_json::json;
use sqs_once::executions::StateMachine;
use sqs_once::sdk::sfn::config::{BehaviorVersion, Credentials, Region};
use sqs_once::sdk::sfn::{Client, Config};
use sqs_once::testing::{Bench, Event};
use sqs_once_local::LocalExecutions;

use super::fulfil;

fn fulfilment(aws: &LocalExecutions) -> StateMachine {
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "test"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(aws.endpoint())
        .build();
    let fulfilment =
        StateMachine::new("arn:aws:states:eu-central-1:123456789012:stateMachine:fulfilment")
            .unwrap();
    fulfilment.client(Client::from_conf(config))
}

#[tokio::test]
async fn an_order_that_comes_twice_starts_one_execution() {
    let aws = LocalExecutions::start(0).await.unwrap();
    let bench = Bench::new(fulfil::consumer(fulfilment(&aws)));
    let order: serde_json::Value = serde_json::from_str(include_str!("event.json")).unwrap();
    let event = Event::new([&order]);
    bench.run(&event).await.assert_processed("m-1");
    bench.run(&event).await.assert_duplicate("m-1");
    let [execution] = aws.all().try_into().unwrap();
    assert_eq!(execution.input, json!(order).to_string());
}
