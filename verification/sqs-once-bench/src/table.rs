//! The stand-in for DynamoDB: the tables of `dynamodb-for-tests`, with a door, a fixed latency, and counters.
//!
//! It runs in threads of the benchmark's own process. While a contender works the benchmark only
//! waits, so a process of its own would disturb no less, and its counters could only be read by
//! further requests. What it costs is measured ([`Counts::cpu`]) and reported with the results.
//!
//! Tables need not be created: each comes into being with its first item. Their key is `id`, of
//! type S.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dynamodb_for_tests::{Item, KeyType, Schema, Tables, Value};

use crate::http::{self, Connection, response};
use crate::machine;

pub use dynamodb_for_tests::Units;

/// How long the answers of the stand-in take, on top of what it computes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// For every request.
    pub request: Duration,
    /// For every statement of a batch.
    pub statement: Duration,
}

/// What has come in so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Requests, by operation.
    pub requests: BTreeMap<String, u64>,
    /// The statements of all batches.
    pub statements: u64,
    /// What all of it consumed.
    pub units: Units,
    /// Connections.
    pub connections: u64,
    /// The stand-in's own CPU time.
    pub cpu: Duration,
    /// How long all answers together took beyond their latency, from the request read to the answer
    /// about to be sent.
    pub late: Duration,
}

impl Counts {
    /// All requests.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    /// What came in since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let requests = self.requests.iter().filter_map(|(operation, count)| {
            let count = count - earlier.requests.get(operation).unwrap_or(&0);
            (count > 0).then(|| (operation.clone(), count))
        });
        Self {
            requests: requests.collect(),
            statements: self.statements - earlier.statements,
            units: self.units - earlier.units,
            connections: self.connections - earlier.connections,
            cpu: self.cpu - earlier.cpu,
            late: self.late - earlier.late,
        }
    }
}

/// The stand-in, listening on a loopback port until the process ends.
pub struct Table {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    tables: Tables,
    counts: Counts,
    latency: Latency,
}

impl Table {
    /// Starts it.
    ///
    /// # Errors
    /// When no loopback port can be had.
    pub fn start(latency: Latency) -> io::Result<Self> {
        let state = State {
            tables: Tables::made_when_named(Schema::partition_key("id", KeyType::S)),
            counts: Counts::default(),
            latency,
        };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        let serve = move |connection: &mut Connection| serve(connection, &shared);
        let address = http::listen("table", serve)?;
        Ok(Self { address, state })
    }

    /// Its URL.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers with this latency from the next request on.
    pub fn set_latency(&self, latency: Latency) {
        lock(&self.state).latency = latency;
    }

    /// What has come in so far.
    pub fn counts(&self) -> Counts {
        lock(&self.state).counts.clone()
    }

    /// How many items of a table are completed.
    pub fn completed(&self, table: &str) -> usize {
        let state = lock(&self.state);
        let completed = |item: &&Item| matches!(item.get("status"), Some(Value::S(status)) if status == "COMPLETED");
        state.tables.items(table).filter(completed).count()
    }

    /// Deletes all items of all tables.
    pub fn clear(&self) {
        lock(&self.state).tables.clear();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(connection: &mut Connection, state: &Mutex<State>) -> io::Result<()> {
    machine::sleep_exactly();
    lock(state).counts.connections += 1;
    let mut cpu = machine::thread_cpu();
    while let Some(request) = connection.next_request()? {
        let arrived = Instant::now();
        let operation = request.target.rsplit('.').next().unwrap_or_default();
        let (answer, latency) = {
            let mut state = lock(state);
            // No contender commits transactions, whose tokens alone depend on the time.
            let body = connection.body(&request);
            let answer = state.tables.carry_out(operation, body, Duration::ZERO);
            if let Some(count) = state.counts.requests.get_mut(operation) {
                *count += 1;
            } else {
                state.counts.requests.insert(operation.to_owned(), 1);
            }
            (answer, state.latency)
        };
        let headers = [("content-type", "application/x-amz-json-1.0")];
        let response = response(answer.status, &headers, answer.body.as_bytes());
        let takes =
            latency.request + latency.statement * u32::try_from(answer.statements).unwrap_or(0);
        thread::sleep(takes.saturating_sub(arrived.elapsed()));
        let late = arrived.elapsed().saturating_sub(takes);
        // Counted before it is sent, so that whoever has the answer finds it counted.
        let used = machine::thread_cpu();
        {
            let counts = &mut lock(state).counts;
            counts.late += late;
            counts.cpu += used.saturating_sub(cpu);
            counts.statements += answer.statements as u64;
            counts.units = counts.units + answer.units;
        }
        cpu = used;
        connection.send(&response)?;
    }
    Ok(())
}
