//! The network between the function and AWS, which loses and delays requests and answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use network_for_tests::{Death, Turn, Wire};
use serde_json::Value;
use tokio::sync::Notify;

use crate::chance::Chance;
use crate::history::History;
use crate::killer::Killer;
use crate::worker::{KEY, ROUTES};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub(crate) enum TrafficFault {
    /// The connection breaks before the request arrives.
    #[value(name = "request lost")]
    RequestLost,
    /// The request is carried out, and the connection breaks before the answer.
    #[value(name = "carried out, answer lost")]
    AnswerLost,
    /// The request is carried out, but the answer is an internal error.
    #[value(name = "carried out, answered as an internal error")]
    AnswerSpoilt,
    /// The request is carried out after the client has stopped waiting.
    #[value(name = "carried out after the client gave up")]
    RequestLate,
    /// The request is carried out immediately, but its answer comes after the client has stopped waiting.
    #[value(name = "answered after the client gave up")]
    AnswerLate,
    /// The request is slow but succeeds.
    #[value(name = "slow")]
    Slow,
    /// The request is lost, and for a while so are the next ones, or their answers.
    #[value(name = "lost at the start of an outage")]
    Outage,
}

impl TrafficFault {
    const OUTAGE: [Self; 2] = [Self::RequestLost, Self::AnswerLost];
}

/// From longer than the client waits for an attempt (2 s) to longer than a lease.
const LATE_MS: std::ops::Range<u64> = 2_200..7_000;
const SLOW_MS: std::ops::Range<u64> = 10..300;
/// Some outages are shorter than all of the client's attempts together, others longer than the function's timeout.
const OUTAGE_MS: std::ops::Range<u64> = 100..5_000;

/// The requests of one environment to one service.
pub(crate) struct Traffic {
    pub(crate) environment: usize,
    pub(crate) faults_in_thousand: usize,
    pub(crate) chance: Chance,
    /// When the last outage ends.
    pub(crate) outage: Instant,
    pub(crate) history: Arc<History>,
    pub(crate) killer: Arc<Killer>,
}

impl Traffic {
    /// Connects the environment to the service at this URL.
    pub(crate) async fn to(mut self, url: &str) -> Wire {
        Wire::deciding(url, move |operation, body| self.turn(operation, body)).await
    }

    fn turn(&mut self, operation: &str, body: &Value) -> Turn {
        let fault = self.fault();
        self.history.requested();
        if let Some(fault) = fault {
            let orders = orders_in(&body.to_string());
            self.history.fault(fault, operation, &orders);
        }
        let late = self.chance.millis(LATE_MS);
        let slow = self.chance.millis(SLOW_MS);
        match fault {
            None if self.killer.on_request(self.environment) => {
                let (killer, environment) = (Arc::clone(&self.killer), self.environment);
                let dies = Arc::new(Notify::new());
                let executed = Arc::clone(&dies);
                tokio::spawn(async move {
                    executed.notified().await;
                    killer.kill(environment);
                });
                Turn::Die(Death::After, dies)
            }
            None => Turn::Pass,
            Some(TrafficFault::RequestLost | TrafficFault::Outage) => Turn::LoseRequest,
            Some(TrafficFault::AnswerLost) => Turn::LoseAnswer,
            Some(TrafficFault::AnswerSpoilt) => Turn::Garble(500, String::new()),
            Some(TrafficFault::RequestLate) => Turn::Late(late, Duration::ZERO),
            Some(TrafficFault::AnswerLate) => Turn::Late(Duration::ZERO, late),
            Some(TrafficFault::Slow) => Turn::Late(slow, Duration::ZERO),
        }
    }

    fn fault(&mut self) -> Option<TrafficFault> {
        let faults = match Instant::now() < self.outage {
            true => &TrafficFault::OUTAGE[..],
            false if self.chance.in_thousand(self.faults_in_thousand) => {
                TrafficFault::value_variants()
            }
            false => return None,
        };
        let fault = faults[self.chance.below(faults.len())];
        if fault == TrafficFault::Outage {
            self.outage = Instant::now() + self.chance.millis(OUTAGE_MS);
        }
        Some(fault)
    }
}

/// The orders that a request names: by themselves in messages, and by their keys in items.
fn orders_in(text: &str) -> Vec<usize> {
    let mut orders = numbers_behind("order-", text);
    for (nth, route) in ROUTES.iter().enumerate() {
        let keys = numbers_behind(&format!("{route}#s:{KEY}"), text);
        orders.extend(keys.into_iter().map(|key| key * ROUTES.len() + nth));
    }
    orders.sort_unstable();
    orders.dedup();
    orders
}

fn numbers_behind(prefix: &str, text: &str) -> Vec<usize> {
    let rests = text.split(prefix).skip(1);
    let numbers = rests.filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    });
    numbers.collect()
}
