//! The second function of the package.

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

#[tokio::main(flavor = "current_thread")]
async fn main() {
    describe(handle::consumer()).await;
    describe(later::handle::consumer()).await;
    describe(two_functions::handle::consumer()).await;
}
