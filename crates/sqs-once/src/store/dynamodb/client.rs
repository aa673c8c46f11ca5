//! The SDK client that `from_env` makes.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Builder;
use aws_sdk_dynamodb::config::retry::RetryPartition;

use crate::aws;

pub(super) async fn from_env() -> Client {
    let config = Builder::from(aws::config().await)
        // Without a partition of its own the store shares one retry budget with every other client
        // of DynamoDB in the process, and a throttled one would starve it.
        .retry_partition(RetryPartition::new("sqs-once"))
        .build();
    Client::from_conf(config)
}
