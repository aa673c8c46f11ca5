//! Behaviour that users of Powertools for AWS Lambda, Middy or Spring Cloud AWS rely on, one for each test. If this
//! library differs on purpose, the test's comment explains why.

mod batches;
mod deduplication;
mod keys_and_tables;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sqs_once::key::JsonPointer;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Consumer, HandlerError, ResultExt, State, consumer};
use tokio::time::sleep;

/// The handler's effects: the IDs of the orders, once for each call.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<Mutex<Vec<String>>>);

impl Effects {
    /// The effects since the previous call.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Records its effect, and then does what the order's field `do` requests.
async fn obey(order: Value, State(effects): State<Effects>) -> Result<(), HandlerError> {
    let id = order["id"].as_str().unwrap_or("(none)").to_owned();
    effects.0.lock().unwrap().push(id);
    match order["do"].as_str() {
        Some("fail") => Err("the card was declined")?,
        Some("give up") => Err("there is no such card").terminal(),
        Some("panic") => panic!("what a surprise"),
        Some("take a second") => {
            sleep(Duration::from_secs(1)).await;
            Ok(())
        }
        Some("hang") => std::future::pending().await,
        _ => Ok(()),
    }
}

/// A consumer of orders by their `id`.
pub(crate) fn orders() -> (Consumer, Effects) {
    let effects = Effects::default();
    let orders = consumer::<Value>()
        .key(JsonPointer::new("/id"))
        .state(effects.clone())
        .handler(obey);
    (orders, effects)
}

/// The same consumer on a bench.
pub(crate) fn bench() -> (Bench, Effects) {
    let (orders, effects) = orders();
    (Bench::new(orders), effects)
}

pub(crate) fn order(id: &str) -> Value {
    json!({ "id": id })
}

/// An order that requests an action.
pub(crate) fn told(id: &str, what: &str) -> Value {
    json!({ "id": id, "do": what })
}

/// An event of one order.
pub(crate) fn one(id: &str) -> Event {
    Event::new([&order(id)])
}

/// A record of a FIFO queue.
pub(crate) fn grouped(group: &str, order: &Value) -> Record {
    Record::json(order).fifo(group)
}
