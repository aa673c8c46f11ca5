//! Whole outages in simulated time: a queue with visibility timeouts and a redrive policy, environments, and a service that
//! is down for a while.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::time::{Clock, Timestamp};

use super::Service;
use crate::support::SECOND;

const HOUR: Duration = Duration::from_secs(3600);
/// The template's redrive policy.
const MAX_RECEIVE_COUNT: u32 = 5;
/// SQS's limit, less what the library assumes to have passed before the function got the message.
const LONGEST_DELAY: Duration = Duration::from_secs(12 * 3600 - 16 * 60);

/// One outage.
#[derive(Clone, Debug)]
struct Outage {
    lasts: Duration,
    environments: usize,
    /// For each message: when it is sent after the outage began, and how often it had been received before.
    messages: Vec<(Duration, u32)>,
    /// Whether each environment dies after its turn, so that the next one is new.
    dies: bool,
}

/// What a mutant of the library would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    /// Messages come back after a minute, whatever they have left.
    IgnoresTheBudget,
    /// Every environment is the probe.
    ElectsNobody,
    /// The time of the open breaker does not pass.
    NeverLapses,
}

#[derive(Debug, Default)]
struct Result {
    /// Messages that SQS moved, without a reason.
    buried: Vec<usize>,
    /// Messages that the library moved, with a reason.
    marked: Vec<usize>,
    /// The delay of each message after the service was available again and the message was there.
    delays: BTreeMap<usize, Duration>,
    /// The calls while the service was down.
    calls: usize,
    /// The time of the last turn.
    ended: Duration,
}

impl Outage {
    async fn run(&self, mutant: Mutant) -> Result {
        let service = Service::down();
        let consumer = || service.consumer().dead_letter_queue(crate::support::DLQ);
        let first = Bench::new(consumer());
        let began = first.clock().now();
        let at = |after: Duration| began + after;
        let mut environments: Vec<_> = (0..self.environments)
            .map(|_| first.beside(consumer()))
            .collect();
        // When each message is visible, and how often it was received.
        let mut queue: BTreeMap<usize, (Timestamp, u32)> = BTreeMap::new();
        for (message, (sent, received)) in self.messages.iter().enumerate() {
            queue.insert(message, (at(*sent), *received));
        }
        let mut result = Result::default();
        let mut turn = 0;
        while let Some(next) = queue.values().map(|(visible, _)| *visible).min() {
            let now = first.clock().now();
            first.clock().advance(next.since(now));
            let now = first.clock().now().since(began);
            if now > 40 * self.lasts + 200 * HOUR {
                break;
            }
            if now >= self.lasts && service.is_down.load(std::sync::atomic::Ordering::SeqCst) {
                result.calls = service.calls();
                service.set_down(false);
            }
            let due = queue.iter().filter(|(_, (visible, _))| *visible <= at(now));
            let due: Vec<usize> = due.map(|(message, _)| *message).collect();
            let batch = &due[..due.len().min(10)];
            let mut records = Vec::new();
            for message in batch {
                let entry = queue.get_mut(message).unwrap();
                entry.1 += 1;
                if entry.1 > MAX_RECEIVE_COUNT {
                    queue.remove(message);
                    result.buried.push(*message);
                    continue;
                }
                let id = message.to_string();
                let record = Record::json(&json!({ "id": id })).message_id(&id);
                records.push(record.receive_count(entry.1));
            }
            if records.is_empty() {
                continue;
            }
            let bench = turn % environments.len();
            if self.dies {
                environments[bench] = first.beside(consumer());
                environments[bench].init().await;
            }
            if mutant == Mutant::ElectsNobody {
                first.store().memory().remove(&breaker());
            }
            let answer = environments[bench].run(Event::new(records)).await;
            if mutant == Mutant::NeverLapses
                && let Some(mut item) = first.store().memory().get(&breaker())
                && item.status == sqs_once::store::Status::InProgress
            {
                item.lease_until = Some(Timestamp::from_millis(u64::MAX));
                first.store().memory().put(item);
            }
            turn += 1;
            let now = first.clock().now();
            for message in batch
                .iter()
                .filter(|it| queue.contains_key(it))
                .copied()
                .collect::<Vec<_>>()
            {
                let id = message.to_string();
                if answer.retried().contains(&id) {
                    let delay = match mutant {
                        Mutant::IgnoresTheBudget => 60 * SECOND,
                        _ => answer.delay(&id).unwrap_or(180 * SECOND),
                    };
                    assert!(delay <= LONGEST_DELAY, "SQS refuses {delay:?}");
                    queue.get_mut(&message).unwrap().0 = now + delay;
                    continue;
                }
                queue.remove(&message);
                match answer.outcome(&id) {
                    sqs_once::telemetry::Outcome::Terminal => result.marked.push(message),
                    _ => {
                        let there = self.lasts.max(self.messages[message].0);
                        let delay = now.since(began).saturating_sub(there);
                        result.delays.insert(message, delay);
                    }
                }
            }
            result.ended = now.since(began);
        }
        result
    }
}

fn breaker() -> sqs_once::key::ItemId {
    sqs_once::key::ItemId::from_stored("breaker#payments".to_owned())
}

fn outages() -> impl Strategy<Value = Outage> {
    let messages = (0..30u64 * 3600, 0..MAX_RECEIVE_COUNT);
    let messages = prop::collection::vec(messages, 1..40);
    (60..24u64 * 3600, 1..6usize, messages, any::<bool>()).prop_map(
        |(lasts, environments, messages, dies)| Outage {
            lasts: Duration::from_secs(lasts),
            environments,
            messages: messages
                .into_iter()
                .map(|(sent, received)| (Duration::from_secs(sent), received))
                .collect(),
            dies,
        },
    )
}

fn simulate(outage: &Outage, mutant: Mutant) -> Result {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(outage.run(mutant))
}

/// The deliveries that a message has left after its first one in the outage.
fn left(received: u32) -> u32 {
    MAX_RECEIVE_COUNT - received - 1
}

/// What an outage of up to a day must not do.
fn check(outage: &Outage, result: &Result) -> std::result::Result<(), String> {
    for (message, (sent, received)) in outage.messages.iter().enumerate() {
        let is_lost = result.buried.contains(&message) || result.marked.contains(&message);
        if result.buried.contains(&message) {
            return Err(format!("SQS moved {message} without a reason"));
        }
        let survives = match left(*received) {
            // Two waits are a little less than a day.
            2 => outage.lasts < 23 * HOUR,
            left => left > 2,
        };
        if is_lost && survives {
            return Err(format!("{message} had {} deliveries left", left(*received)));
        }
        if is_lost && *sent >= outage.lasts {
            return Err(format!("{message} came after the outage"));
        }
        if !is_lost && !result.delays.contains_key(&message) {
            return Err(format!("{message} never ended"));
        }
    }
    // The first failures of each environment, and a probe every 30 s.
    let openings = outage.environments * 10;
    let probes = outage.lasts.as_secs() as usize / 30 + 1;
    if result.calls > openings + probes {
        return Err(format!("{} calls while the service was down", result.calls));
    }
    // The worst case is a message that comes half an hour into an outage for the third time: it must wait for half a day.
    for (message, delay) in &result.delays {
        let longest = 24 * outage.lasts.max(30 * SECOND);
        if left(outage.messages[*message].1) == 4 && *delay > longest.min(LONGEST_DELAY) {
            return Err(format!("{message} came {delay:?} after the outage"));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 4,
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_outage_of_a_day_buries_no_message_with_three_deliveries_left(outage in outages()) {
        let result = simulate(&outage, Mutant::None);
        prop_assert_eq!(check(&outage, &result), Ok(()), "{:?}", result);
    }
}

#[test]
fn a_library_without_one_of_its_guards_is_noticed() {
    let outage = Outage {
        lasts: 2 * HOUR,
        environments: 4,
        messages: (0..300).map(|at| (at * 30 * SECOND, 0)).collect(),
        dies: false,
    };
    check(&outage, &simulate(&outage, Mutant::None)).unwrap();
    for mutant in [
        Mutant::IgnoresTheBudget,
        Mutant::ElectsNobody,
        Mutant::NeverLapses,
    ] {
        let result = simulate(&outage, mutant);
        assert!(
            check(&outage, &result).is_err(),
            "{mutant:?}: {} calls",
            result.calls
        );
    }
}
