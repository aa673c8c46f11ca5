//! A queue that delivers at least once, and processes that start and die.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use postgres_for_tests::Server;
use sqs_once::consumer::Margins;
use sqs_once::once::Invocation;
use sqs_once::store::Timestamp;
use sqs_once::unstable::{Clock, Simulated};
use sqs_once::{Batch, BatchOutcome, Consumer, Handler, HandlerError, Idempotency};
use sqs_once_postgres::{BatchTransaction, PostgresStore, Transaction};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};
use tower_service::Service;

use super::chance::Chance;
use super::proxy::{FaultSchedule, Faults, Proxy};
use crate::orders::{Order, event, failures};

/// A message about the order that is its key.
#[derive(Clone)]
struct Message {
    id: String,
    key: String,
}

/// The pause between rounds in which a claim may be abandoned.
const PAUSE: Duration = Duration::from_millis(50);
/// More deliveries than any message of these tests needs. A claim that was abandoned by a process whose clock is two
/// seconds ahead takes fifty. On a busy machine, the next claim may be abandoned too.
const MOST_ROUNDS: usize = 1000;

/// How the effect and the completion of its key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one transaction.
    Together,
    /// In one transaction for all records of a batch handler.
    Batch,
    /// In one transaction, by work without SQS.
    WithoutSqs,
    /// The handler writes the effect itself, and the store writes the record afterwards.
    Apart,
}

impl Way {
    /// The time limit of an invocation, and so the lease of an abandoned claim.
    fn invocation(self) -> Duration {
        match self {
            Self::Together | Self::Batch | Self::WithoutSqs => Duration::from_secs(5),
            Self::Apart => Duration::from_millis(500),
        }
    }
}

const ONE_MORE: &str = "INSERT INTO effects VALUES ($1, 1)
    ON CONFLICT (id) DO UPDATE SET times = effects.times + 1";

/// The tables, and a role for the processes. One hashing round: the password is not secret, and the tests open thousands
/// of connections. Several tests create the role, also at the same time.
const TABLES: &str = "CREATE TABLE effects (id text PRIMARY KEY, times bigint);
    DO $$ BEGIN
        PERFORM set_config('scram_iterations', '1', false);
        CREATE ROLE quick LOGIN PASSWORD 'quick';
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
        NULL;
    END $$;
    GRANT ALL ON effects, processed_events TO quick";

/// A database with the tables.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) port: u16,
    database: String,
}

impl Place {
    /// Creates the tables, and others by `statements`.
    pub(crate) async fn new(server: &Server, statements: &str) -> Self {
        let url = server.create_database();
        let client = connect(&url).await.unwrap();
        for statements in [sqs_once_postgres::SCHEMA_V1, TABLES, statements] {
            client.batch_execute(statements).await.unwrap();
        }
        let (_, tail) = url.split_once("@127.0.0.1:").unwrap();
        let (port, database) = tail.split_once('/').unwrap();
        Self {
            port: port.parse().unwrap(),
            database: database.to_owned(),
        }
    }

    /// The URL of the database through a port.
    pub(crate) fn through(&self, port: u16) -> String {
        let database = &self.database;
        format!("postgresql://quick:quick@127.0.0.1:{port}/{database}?sslmode=disable")
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.through(self.port)).await.unwrap()
    }
}

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// How often the effect of `key` happened.
pub(crate) async fn effects(client: &Client, key: &str) -> i64 {
    let select = "SELECT times FROM effects WHERE id = $1";
    let row = client.query_opt(select, &[&key]).await.unwrap();
    row.map_or(0, |row| row.get(0))
}

/// A process's clock, with an offset.
#[derive(Clone, Copy)]
struct SkewedClock(Duration);

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + self.0
    }
}

/// The result of one scenario.
pub(crate) struct Told {
    /// How often the effect of each key happened.
    pub(crate) effects: Vec<i64>,
    /// Acknowledged messages without their effect.
    pub(crate) lost: Vec<String>,
    pub(crate) messages: usize,
    pub(crate) story: String,
}

/// Runs one scenario: delivers every message until it is acknowledged.
pub(crate) async fn tell(
    place: &Place,
    client: &Client,
    way: Way,
    schedule: FaultSchedule,
    seed: u64,
    story: &str,
) -> Told {
    let chance = Chance::from_seed(seed);
    let keys = (0..=chance.below(2)).map(|key| format!("{story}-{seed}-{key}"));
    let keys: Vec<_> = keys.collect();
    let mut queue = Vec::new();
    for key in &keys {
        for copy in 0..=chance.below(2) {
            let (id, key) = (format!("{key}-{copy}"), key.clone());
            queue.push(Message { id, key });
        }
    }
    let faults = Faults::new(schedule, chance.clone());
    let mut lost = Vec::new();
    for round in 0.. {
        let (left, told) = (queue.len(), faults.story());
        assert!(
            round < MOST_ROUNDS,
            "{story}, seed {seed}: {left} messages never end\n{told}"
        );
        if queue.is_empty() {
            break;
        }
        // Two processes at a time. Both may receive a message.
        let mut processes = JoinSet::new();
        for _ in 0..2 {
            let mut batch = queue.clone();
            batch.retain(|_| chance.below(3) > 0);
            if batch.is_empty() {
                continue;
            }
            let skew = chance.millis(0..2000);
            let (place, faults, chance) = (place.clone(), Arc::clone(&faults), chance.clone());
            processes.spawn(async move { invoke(&place, &faults, way, skew, chance, batch).await });
        }
        while let Some(acknowledged) = processes.join_next().await {
            for message in acknowledged.unwrap() {
                faults.note(format!("{} is acknowledged", message.id));
                if effects(client, &message.key).await == 0 {
                    lost.push(message.id.clone());
                }
                queue.retain(|other| other.id != message.id);
            }
        }
        if way == Way::Apart {
            sleep(PAUSE).await;
        }
    }
    let mut times = Vec::new();
    for key in &keys {
        times.push(effects(client, key).await);
    }
    Told {
        effects: times,
        lost,
        messages: faults.messages(),
        story: faults.story(),
    }
}

/// Runs one process on one batch. Returns the messages that need no other delivery.
async fn invoke(
    place: &Place,
    faults: &Arc<Faults>,
    way: Way,
    skew: Duration,
    chance: Chance,
    mut batch: Vec<Message>,
) -> Vec<Message> {
    let proxy = Proxy::to(place.port, faults).await;
    let url = place.through(proxy.port);
    let store = PostgresStore::from_url(&url).unwrap();
    let clock = SkewedClock(skew);
    let ends_at = clock.now() + way.invocation();
    let done = async {
        match way {
            Way::WithoutSqs => {
                let idempotency = Idempotency::new("exactly-once")
                    .store(store)
                    .with_clock(clock)
                    .with_random(chance.clone());
                work(&idempotency.until(ends_at), &batch, &chance).await
            }
            Way::Together | Way::Batch | Way::Apart => {
                let consumer = consumer(way, url, chance.clone())
                    .store(store)
                    .with_clock(clock)
                    // Keeps the wait for an abandoned claim short in claim-first mode.
                    .margins(Margins::new().lease(Duration::from_secs(1)))
                    .with_random(chance.clone());
                consume(consumer, &batch, ends_at).await
            }
        }
    };
    let done = timeout(way.invocation(), async {
        tokio::select! {
            done = done => Some(done),
            () = proxy.death() => None,
        }
    });
    let done = done.await.ok().flatten();
    // The process may also die while it answers.
    if chance.below(20) == 0 {
        proxy.die();
    }
    let done = done.filter(|_| !proxy.is_dead());
    proxy.die();
    // An invocation that dies acknowledges no message.
    let done = done.unwrap_or_default();
    batch.retain(|message| done.contains(&message.id));
    batch
}

/// Returns the IDs of the messages that a consumer acknowledges. An invocation that fails acknowledges none.
async fn consume(mut consumer: Consumer, batch: &[Message], ends_at: Timestamp) -> Vec<String> {
    let messages = batch.iter().map(|one| (&*one.id, &*one.key));
    let Ok(answer) = consumer.call(event(messages, ends_at)).await else {
        return Vec::new();
    };
    let failures = failures(answer);
    let ids = batch.iter().map(|message| message.id.clone());
    ids.filter(|id| !failures.contains(id)).collect()
}

/// Does the work of each message at the same time. Returns the IDs of the messages that are done.
async fn work(invocation: &Invocation<'_>, batch: &[Message], chance: &Chance) -> Vec<String> {
    let all = batch.iter().map(async |message| {
        let work = async |tx: Transaction, _| {
            effect(&message.key, &tx, chance).await?;
            Ok::<_, HandlerError>(message.key.clone())
        };
        let done = invocation.run_in_transaction(&message.key, work).await;
        let value = done.ok()?.into_value();
        assert_eq!(value.as_ref(), Some(&message.key));
        Some(message.id.clone())
    });
    join_all(all).await.into_iter().flatten().collect()
}

async fn effect(key: &str, tx: &Transaction, chance: &Chance) -> Result<(), HandlerError> {
    sleep(chance.millis(0..5)).await;
    tx.execute(ONE_MORE, &[&key]).await?;
    sleep(chance.millis(0..5)).await;
    Ok(())
}

/// Fails for some records after their effect.
async fn batch(
    orders: &Batch<Order>,
    mut tx: BatchTransaction,
    chance: &Chance,
) -> Result<BatchOutcome, HandlerError> {
    let mut outcome = orders.outcome();
    for record in orders {
        let done = tx.savepoint([record], async |tx| {
            effect(&record.payload().id, &tx, chance).await?;
            match chance.below(5) {
                0 => Err(HandlerError::retry("not this time")),
                _ => Ok(()),
            }
        });
        outcome.ended(record, done.await);
    }
    Ok(outcome)
}

fn consumer(way: Way, url: String, chance: Chance) -> Consumer {
    let keyed = Handler::json::<Order>().key(|order: &Order| order.id.clone());
    let handler = match way {
        Way::Together | Way::WithoutSqs => keyed.call(move |order: Order, tx: Transaction| {
            let chance = chance.clone();
            async move { effect(&order.id, &tx, &chance).await }
        }),
        Way::Batch => {
            let handler = move |orders: Batch<Order>, tx: BatchTransaction| {
                let chance = chance.clone();
                async move { batch(&orders, tx, &chance).await }
            };
            return Consumer::new(keyed.call_batch(handler).namespace("exactly-once"));
        }
        Way::Apart => keyed.call(move |order: Order| {
            let url = url.clone();
            async move {
                let client = connect(&url).await?;
                client.execute(ONE_MORE, &[&order.id]).await?;
                Ok::<_, HandlerError>(())
            }
        }),
    };
    Consumer::new(handler.namespace("exactly-once"))
}
