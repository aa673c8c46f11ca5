//! The stand-in for DynamoDB: tables in memory behind HTTP, with a fixed latency and counters.
//!
//! It runs in threads of the benchmark's own process. While a contender works, the benchmark only waits, so a separate
//! process would disturb as much, and its counters would need further requests.
//!
//! Tables need not be created: the first item creates its table. Their key is `id`, of type S.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::http::{self, Connection, response};
use crate::machine;
use crate::tables::{Item, Tables, Value};

pub use crate::tables::Units;

/// The latency that the stand-in adds to its own computing time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// For every request.
    pub request: Duration,
    /// For every statement of a batch.
    pub statement: Duration,
}

/// The latency of the measurements.
pub const LATENCY: Latency = Latency {
    request: Duration::from_millis(2),
    statement: Duration::ZERO,
};

/// The requests so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// The number of requests, by operation.
    pub requests: BTreeMap<String, u64>,
    /// The consumed request units.
    pub units: Units,
}

impl Counts {
    /// The total number of requests.
    pub fn total(&self) -> u64 {
        self.requests.values().sum()
    }

    /// The counts since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let requests = self.requests.iter().filter_map(|(operation, count)| {
            let count = count - earlier.requests.get(operation).unwrap_or(&0);
            (count > 0).then(|| (operation.clone(), count))
        });
        Self {
            requests: requests.collect(),
            units: self.units - earlier.units,
        }
    }
}

/// The stand-in on a loopback port. It listens until the process ends.
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
    /// Starts the stand-in.
    pub fn start(latency: Latency) -> io::Result<Self> {
        let state = State {
            tables: Tables::default(),
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

    /// Uses this latency from the next request on.
    pub fn set_latency(&self, latency: Latency) {
        self.state.lock().latency = latency;
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.state.lock().counts.clone()
    }

    /// The number of completed items in a table.
    pub fn completed(&self, table: &str) -> usize {
        let state = self.state.lock();
        let completed = |item: &&Item| matches!(item.get("status"), Some(Value::S(status)) if status == "COMPLETED");
        state.tables.items(table).filter(completed).count()
    }

    /// Deletes all items of all tables.
    pub fn clear(&self) {
        self.state.lock().tables.clear();
    }
}

fn serve(connection: &mut Connection, state: &Mutex<State>) -> io::Result<()> {
    machine::sleep_exactly();
    while let Some(request) = connection.next_request()? {
        let arrived = Instant::now();
        let operation = request.target.rsplit('.').next().unwrap_or_default();
        let (answer, latency) = {
            let mut state = state.lock();
            let body = connection.body(&request);
            let answer = state.tables.carry_out(operation, body);
            let latency = state.latency;
            // Counted before sending, so a client that has the answer also finds its request counted.
            let counts = &mut state.counts;
            *counts.requests.entry(operation.to_owned()).or_default() += 1;
            counts.units = counts.units + answer.units;
            (answer, latency)
        };
        let headers = [("content-type", "application/x-amz-json-1.0")];
        let response = response(answer.status, &headers, answer.body.as_bytes());
        let takes =
            latency.request + latency.statement * u32::try_from(answer.statements).unwrap_or(0);
        thread::sleep(takes.saturating_sub(arrived.elapsed()));
        connection.send(&response)?;
    }
    Ok(())
}
