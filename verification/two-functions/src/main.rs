//! The function with the package's name. It has handlers in several modules.

use sqs_once::extract::Key;
use two_functions::{describe, tell};

#[sqs_once::handler(key = order["id"].as_str())]
async fn handle(order: serde_json::Value, key: Key) {
    tell(&order, &key);
}

mod later {
    use super::{Key, tell};

    #[sqs_once::handler(key = order["id"].as_str())]
    pub(super) async fn handle(order: serde_json::Value, key: Key) {
        tell(&order, &key);
    }
}

async fn describe_one_of_its_own() {
    #[sqs_once::handler(key = order["id"].as_str())]
    async fn handle(order: serde_json::Value, key: Key) {
        tell(&order, &key);
    }
    describe(handle::consumer()).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    describe(handle::consumer()).await;
    describe(later::handle::consumer()).await;
    describe_one_of_its_own().await;
    describe(two_functions::handle::consumer()).await;
}
