//! A queue that delivers at least once, and processes that start and die.

use std::time::Duration;

use sqs_once::testing::TestSettings;
use sqs_once::time::{Clock, SystemClock, Timestamp};
use sqs_once::{Consumer, HandlerError};
use sqs_once_postgres::{PostgresStore, Transaction};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};
use tower_service::Service;

use super::chance::Chance;
use super::proxy::{Proxy, Sky, Weather};
use super::queue::{Message, Order, acknowledged, event};

/// The pause between rounds in which a claim may be abandoned.
const PAUSE: Duration = Duration::from_millis(50);
/// More deliveries than any message of these tests needs. A claim that was abandoned by a process whose clock is two
/// seconds ahead takes fifty. On a busy machine, the next claim may be abandoned too.
const MOST_ROUNDS: usize = 1000;

/// How the effect and the record of its key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// In one transaction.
    Together,
    /// The handler writes the effect itself, and the store writes the record afterwards.
    Apart,
}

impl Way {
    /// The time limit of an invocation, and so the lease of an abandoned claim.
    fn invocation(self) -> Duration {
        match self {
            Self::Together => Duration::from_secs(5),
            Self::Apart => Duration::from_millis(500),
        }
    }
}

const ONE_MORE: &str = "INSERT INTO effects VALUES ($1, 1)
    ON CONFLICT (id) DO UPDATE SET times = effects.times + 1";

/// A database with the tables and its addresses.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) port: u16,
    /// A URL without its port.
    url: (String, String),
    superuser: String,
}

impl Place {
    /// Creates the tables.
    pub(crate) async fn new(url: &str) -> Self {
        // One hashing round: the password is not secret, and the tests open thousands of connections.
        let quick = "CREATE TABLE effects (id text PRIMARY KEY, times bigint);
            DO $$ BEGIN
                PERFORM set_config('scram_iterations', '1', false);
                IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'quick') THEN
                    CREATE ROLE quick LOGIN PASSWORD 'quick';
                END IF;
            END $$;
            GRANT ALL ON effects, processed_events TO quick";
        let (head, tail) = url.split_once("@127.0.0.1:").unwrap();
        assert!(head.starts_with("postgresql://"));
        let (port, database) = tail.split_once('/').unwrap();
        let place = Self {
            port: port.parse().unwrap(),
            url: (
                "postgresql://quick:quick@127.0.0.1:".to_owned(),
                format!("/{database}?sslmode=disable"),
            ),
            superuser: url.to_owned(),
        };
        place.administer(sqs_once_postgres::SCHEMA_V1).await;
        place.administer(quick).await;
        place
    }

    /// Runs statements as superuser.
    pub(crate) async fn administer(&self, statements: &str) {
        let client = connect(&self.superuser).await.unwrap();
        client.batch_execute(statements).await.unwrap();
    }

    /// The URL of the database through a port.
    pub(crate) fn through(&self, port: u16) -> String {
        let (head, tail) = &self.url;
        format!("{head}{port}{tail}")
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
struct SkewedClock(Duration);

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + self.0
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

impl Told {
    pub(crate) fn is_exactly_once(&self) -> bool {
        self.lost.is_empty() && self.effects.iter().all(|times| *times == 1)
    }
}

/// Runs one scenario: delivers every message until it is acknowledged.
pub(crate) async fn tell(
    place: &Place,
    client: &Client,
    way: Way,
    weather: Weather,
    seed: u64,
    story: &str,
) -> Told {
    let chance = Chance::from_seed(seed);
    let keys: Vec<_> = (0..=chance.below(2))
        .map(|key| format!("{story}-{seed}-{key}"))
        .collect();
    let mut queue = Vec::new();
    for key in &keys {
        for copy in 0..=chance.below(2) {
            let (id, key) = (format!("{key}-{copy}"), key.clone());
            queue.push(Message { id, key });
        }
    }
    let sky = Sky::new(weather, chance.clone());
    let mut lost = Vec::new();
    for round in 0.. {
        assert!(
            round < MOST_ROUNDS,
            "{story}, seed {seed}: {} messages never end\n{}",
            queue.len(),
            sky.story()
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
            if batch.is_empty() {
                continue;
            }
            let skew = chance.millis(0..2000);
            let (place, sky, chance) = (place.clone(), sky.clone(), chance.clone());
            processes.spawn(async move { invoke(&place, &sky, way, skew, chance, batch).await });
        }
        while let Some(acknowledged) = processes.join_next().await {
            for message in acknowledged.unwrap() {
                sky.note(format!("{} is acknowledged", message.id));
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
        messages: sky.messages(),
        story: sky.story(),
    }
}

/// Runs one process on one batch. Returns the messages that SQS may delete.
async fn invoke(
    place: &Place,
    sky: &Sky,
    way: Way,
    skew: Duration,
    chance: Chance,
    batch: Vec<Message>,
) -> Vec<Message> {
    let proxy = Proxy::to(place.port, sky).await;
    let url = place.through(proxy.port);
    let store = PostgresStore::from_url(&url).unwrap();
    let clock = SkewedClock(skew);
    let ends_at = clock.now() + way.invocation();
    let mut consumer = consumer(way, url, chance.clone())
        .store(store)
        .namespace("exactly-once")
        .clock(clock)
        // Keeps the wait for an abandoned claim short in claim-first mode.
        .lease_margin(Duration::ZERO)
        .random(chance.clone());
    let answer = consumer.call(event(&batch, ends_at));
    let answer = timeout(way.invocation(), async {
        tokio::select! {
            answer = answer => Some(answer),
            () = proxy.death() => None,
        }
    });
    let answer = answer.await.ok().flatten();
    // The process may also die while it answers.
    if chance.once_in(20) {
        proxy.die();
    }
    let answer = answer.filter(|_| !proxy.is_dead());
    proxy.die();
    acknowledged(answer, batch)
}

fn consumer(way: Way, url: String, chance: Chance) -> Consumer {
    let keyed = sqs_once::consumer::<Order>().key(|order: &Order| order.id.clone());
    match way {
        Way::Together => keyed.handler(move |order: Order, tx: Transaction| {
            let chance = chance.clone();
            async move {
                sleep(chance.millis(0..5)).await;
                tx.execute(ONE_MORE, &[&order.id]).await?;
                sleep(chance.millis(0..5)).await;
                Ok::<_, HandlerError>(())
            }
        }),
        Way::Apart => keyed.handler(move |order: Order| {
            let url = url.clone();
            async move {
                let client = connect(&url).await?;
                client.execute(ONE_MORE, &[&order.id]).await?;
                Ok::<_, HandlerError>(())
            }
        }),
    }
}
