//! A queue that delivers at least once, and processes that start and die.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, Update};
use dynoxide::Database;
use sqs_once::policy::Mode;
use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, Timestamp};
use sqs_once::{Consumer, DynamoDbStore, HandlerError, Writes};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tower_service::Service;

use crate::exactly_once::chance::Chance;
use crate::exactly_once::network::{EFFECTS, Network, Process, TABLE, Weather};
use crate::exactly_once::queue::{Message, Order, acknowledged, event};

/// The time limit of an invocation, and the visibility timeout of a message.
const INVOCATION: Duration = Duration::from_secs(10);
const VISIBILITY: Duration = Duration::from_secs(60);
/// More deliveries than any message of these tests needs after the last fault.
const MOST_ROUNDS: usize = 60;

/// How the effect and the record of its key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one transaction.
    Together(Mode),
    /// The handler writes the effect itself, and the store writes the record afterwards.
    Apart,
}

/// A process's clock, with an offset.
struct SkewedClock {
    started: Instant,
    skew: Duration,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(4_102_444_800) + self.started.elapsed() + self.skew
    }
}

/// The result of one scenario.
pub(crate) struct Told {
    /// How often the effect of each key happened, after all requests have arrived.
    pub(crate) effects: Vec<u64>,
    /// Acknowledged messages without their effect.
    pub(crate) lost: Vec<String>,
    /// The number of requests with a fault.
    pub(crate) faults: usize,
    pub(crate) story: String,
}

impl Told {
    pub(crate) fn is_exactly_once(&self) -> bool {
        self.lost.is_empty() && self.effects.iter().all(|times| *times == 1)
    }
}

/// Runs one scenario: delivers every message until it is acknowledged.
pub(crate) async fn tell(
    database: &Database,
    way: Way,
    weather: Weather,
    seed: u64,
    story: &str,
) -> Told {
    let chance = Chance::from_seed(seed);
    let started = Instant::now();
    let keys: Vec<_> = (0..=chance.below(2))
        .map(|key| format!("{story}-{seed}-{key}"))
        .collect();
    let mut queue = Vec::new();
    for key in &keys {
        for copy in 0..=chance.below(3) {
            let (id, key) = (format!("{key}-{copy}"), key.clone());
            queue.push(Message { id, key });
        }
    }
    let network = Network::new(database.clone(), weather, chance.clone());
    let mut lost = Vec::new();
    for round in 0.. {
        assert!(
            round < MOST_ROUNDS,
            "seed {seed}: {} messages never end\n{}",
            queue.len(),
            network.story()
        );
        if queue.is_empty() {
            break;
        }
        // Two processes at a time. Both may receive a message.
        let mut processes = JoinSet::new();
        for _ in 0..2 {
            let batch: Vec<_> = queue
                .iter()
                .filter(|_| !chance.once_in(3))
                .cloned()
                .collect();
            let lag = chance.millis(0..200);
            let skew = chance.millis(0..2000);
            let clock = SkewedClock { started, skew };
            let (network, chance) = (network.clone(), chance.clone());
            processes.spawn(async move {
                sleep(lag).await;
                invoke(&network, way, clock, chance, batch).await
            });
        }
        while let Some(acknowledged) = processes.join_next().await {
            for message in acknowledged.unwrap() {
                network.note(format!("{} is acknowledged", message.id));
                if network.effects(&message.key) == 0 {
                    lost.push(message.id.clone());
                }
                queue.retain(|other| other.id != message.id);
            }
        }
        sleep(chance.millis(1..2) + VISIBILITY / 4).await;
    }
    // All requests in flight arrive.
    sleep(Duration::from_secs(600)).await;
    Told {
        effects: keys.iter().map(|key| network.effects(key)).collect(),
        lost,
        faults: network.faults(),
        story: network.story(),
    }
}

/// Runs one process on one batch. Returns the messages that SQS may delete.
async fn invoke(
    network: &Network,
    way: Way,
    clock: SkewedClock,
    chance: Chance,
    batch: Vec<Message>,
) -> Vec<Message> {
    let process = Process::default();
    let ends_at = clock.now() + INVOCATION;
    let client = network.client(&process);
    let mut consumer = consumer(way, client, &process, chance.clone())
        .namespace("exactly-once")
        .clock(clock)
        .random(chance.clone());
    let answer = consumer.call(event(&batch, ends_at));
    let answer = timeout(INVOCATION, async {
        let answer = answer.await;
        // The process may also die while it answers.
        if chance.once_in(20) {
            process.die();
        }
        process.goes_on().await;
        answer
    });
    acknowledged(answer.await.ok(), batch)
}

fn consumer(way: Way, client: Client, process: &Process, chance: Chance) -> Consumer {
    let keyed = sqs_once::consumer::<Order>().key(|order: &Order| order.id.clone());
    let store = DynamoDbStore::new(client.clone(), TABLE);
    let process = process.clone();
    let pause = move |chance: Chance, process: Process| async move {
        sleep(chance.millis(0..50)).await;
        // The process may die in a handler.
        if chance.once_in(50) {
            process.die();
        }
        process.goes_on().await;
    };
    match way {
        Way::Together(mode) => keyed
            .handler(move |order: Order| {
                let pause = pause(chance.clone(), process.clone());
                async move {
                    pause.await;
                    Ok::<_, HandlerError>(Writes::new().update(one_more(&order.id)))
                }
            })
            .mode(mode)
            .store(store),
        Way::Apart => keyed
            .handler(move |order: Order| {
                let pause = pause(chance.clone(), process.clone());
                let client = client.clone();
                async move {
                    pause.await;
                    let update = one_more(&order.id);
                    client
                        .update_item()
                        .table_name(update.table_name)
                        .set_key(Some(update.key))
                        .update_expression(update.update_expression)
                        .set_expression_attribute_values(update.expression_attribute_values)
                        .send()
                        .await?;
                    Ok::<_, HandlerError>(())
                }
            })
            .store(store),
    }
}

/// Increments the count of the effect.
fn one_more(key: &str) -> Update {
    Update::builder()
        .table_name(EFFECTS)
        .key("id", AttributeValue::S(key.to_owned()))
        .update_expression("ADD times :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .build()
        .unwrap()
}
