//! Messages full of secrets, and the surroundings of a consumer that receives them.

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use sqs_once::handler::Handler;
use sqs_once::hook::RecordEnd;
use sqs_once::testing::{TestClock, TestSettings};
use sqs_once::time::Clock;
use sqs_once::{Consumer, HandlerError, Recorded, consumer};

use crate::support::sqs::Sqs;
use crate::support::{DLQ, FIFO, SECOND, STANDARD, TestStore, deliver_until};

/// The payload.
#[derive(Debug, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    #[allow(dead_code, reason = "only there to be shown by mistake")]
    pub(crate) card: String,
}

pub(crate) fn id(order: &Order) -> String {
    order.id.clone()
}

/// A body whose key is `canary-key-NAME`.
pub(crate) fn order(name: &str) -> String {
    json!({ "id": format!("canary-key-{name}"), "card": "canary-card" }).to_string()
}

/// A record with a secret in every field that can contain one.
pub(crate) fn record(at: usize, body: &str) -> Value {
    json!({
        "messageId": format!("m-{at}"),
        "receiptHandle": format!("canary-handle-{at}"),
        "body": body,
        "attributes": {
            "ApproximateReceiveCount": "2",
            "SenderId": "canary-sender",
            "MessageGroupId": "canary-group",
        },
        "messageAttributes": {
            "card": { "stringValue": "canary-attribute", "dataType": "String" },
            "canary-name": { "binaryValue": "Y2FuYXJ5", "dataType": "Binary" },
        },
        "eventSourceARN": STANDARD,
    })
}

pub(crate) fn own_words() -> HandlerError {
    std::io::Error::other("the handler's own words").into()
}

/// A value whose serialisation error quotes its content.
#[derive(Deserialize)]
pub(crate) struct Unkept;

impl Serialize for Unkept {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("canary-data"))
    }
}

pub(crate) struct World {
    pub(crate) store: TestStore,
    pub(crate) clock: TestClock,
    pub(crate) sqs: Sqs,
    pub(crate) is_fifo: bool,
    pub(crate) hooks_fail: bool,
    pub(crate) timeout: Duration,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Sqs::default())
    }

    pub(crate) fn with(sqs: Sqs) -> Self {
        Self {
            store: TestStore::default(),
            clock: TestClock::new(),
            sqs,
            is_fifo: false,
            hooks_fail: false,
            timeout: 30 * SECOND,
        }
    }

    pub(crate) fn consumer(&self, consumer: Consumer) -> Consumer {
        self.set_up(consumer.namespace("test"))
    }

    /// A consumer with a dead-letter queue, and with hooks that print their arguments.
    pub(crate) fn set_up(&self, consumer: Consumer) -> Consumer {
        let fails = self.hooks_fail;
        let shown = move |end| async move {
            shown(&end);
            if fails { Err(own_words()) } else { Ok(()) }
        };
        consumer
            .store(self.store.clone())
            .clock(self.clock.clone())
            .sqs_client(self.sqs.client())
            .dead_letter_queue(DLQ)
            .on_success(shown)
            .on_duplicate(shown)
            .on_failure(shown)
    }

    /// A consumer with this handler of orders.
    pub(crate) fn handling<X: 'static>(&self, handler: impl Handler<Order, (), X>) -> Consumer {
        self.consumer(consumer().key(id).handler(handler))
    }

    /// A consumer whose handler succeeds and records data.
    pub(crate) fn recording(&self) -> Consumer {
        self.handling(async |_: Order| Recorded("canary-data"))
    }

    /// A consumer whose handler returns this error.
    pub(crate) fn failing(&self, error: fn() -> HandlerError) -> Consumer {
        self.handling(move |_: Order| async move { Err::<(), _>(error()) })
    }

    /// Invokes a consumer with an order for each name, and prints the answer.
    pub(crate) async fn orders<const N: usize>(&self, consumer: &Consumer, names: [&str; N]) {
        self.invoke(consumer, names.map(order)).await;
    }

    /// Invokes a consumer with a record for each body, and prints the answer.
    pub(crate) async fn invoke<B: AsRef<str>>(
        &self,
        consumer: &Consumer,
        bodies: impl IntoIterator<Item = B>,
    ) {
        let bodies = bodies.into_iter().enumerate();
        let mut records: Vec<_> = bodies.map(|(at, body)| record(at, body.as_ref())).collect();
        if self.is_fifo {
            for record in &mut records {
                record["eventSourceARN"] = FIFO.into();
            }
        }
        self.invoke_with(consumer, records).await;
    }

    pub(crate) async fn invoke_with(&self, consumer: &Consumer, records: Vec<Value>) {
        let deadline = match self.timeout.is_zero() {
            true => 0,
            false => (self.clock.now() + self.timeout).as_millis(),
        };
        match deliver_until(deadline, consumer, records).await {
            Ok(answer) => println!("answered: {answer:?}"),
            Err(error) => show(&error),
        }
        for request in self.sqs.asked("SendMessage") {
            let attributes = request["MessageAttributes"].as_object().unwrap().iter();
            let ours = attributes.filter(|(name, _)| name.starts_with("sqs-once-"));
            println!("dead letter: {:?}", ours.collect::<Vec<_>>());
        }
    }
}

/// Prints everything that a hook can see of a record's end, except the recorded data.
fn shown(end: &RecordEnd) {
    println!("hook: {end:?} {:?} {:?}", end.message(), end.reason());
}

/// Prints an error in every format that a logger may use.
pub(crate) fn show(error: &(impl Error + 'static)) {
    println!("error: {error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        println!("because: {error}");
        cause = error.source();
    }
}
