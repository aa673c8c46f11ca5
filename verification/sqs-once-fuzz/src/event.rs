//! Checks the consumer with an event of arbitrary bytes.

mod reference;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use sqs_once::consumer::EventError;
use sqs_once::extract::Message;
use sqs_once::testing::{Answer, Bench, Event};
use sqs_once::{Handler, HandlerError};

use crate::{log, runtime};
use reference::{Fate, Reading, Record};

/// One call of the handler.
struct Run {
    id: String,
    group: Option<String>,
    key: String,
    succeeded: bool,
}

thread_local! {
    static RUNS: RefCell<Vec<Run>> = const { RefCell::new(Vec::new()) };
    static HANDLER: Handler = handler();
}

/// A consumer whose key is the body's `order_id`. The body's member `then` decides the handler's result.
fn handler() -> Handler {
    Handler::json::<Value>()
        .key(|order: &Value| order["order_id"].as_str().map(str::to_owned))
        // Records with one key may have any bodies.
        .without_fingerprint()
        .call(async |order: Value, message: Arc<Message>| {
            let then = order["then"].as_str();
            RUNS.with_borrow_mut(|runs| {
                runs.push(Run {
                    id: message.id().to_owned(),
                    group: message.group_id().map(str::to_owned),
                    key: order["order_id"].as_str().unwrap_or_default().to_owned(),
                    succeeded: !then.is_some_and(reference::fails),
                });
            });
            match then {
                Some(reference::RETRY) => Err(HandlerError::retry("later")),
                Some(reference::TERMINAL) => Err(HandlerError::terminal("never")),
                // Panics without the panic hook: libFuzzer's hook ends the process.
                Some(reference::PANIC) => std::panic::resume_unwind(Box::new("a handler's own")),
                _ => Ok(()),
            }
        })
        .namespace("fuzz")
}

/// Checks the promises of the consumer for any event:
///
/// - The consumer either refuses the event as a whole, without running a handler or sending a request to the store, or
///   it answers. The answer contains only the event's own message ids, each at most once.
/// - Every acknowledged record was handled successfully, under its own key. A key is handled once, and is not handled
///   again if the event is repeated.
/// - A record that cannot be read, or has no body, payload or key, is returned. No other record is returned because of
///   it, except in a FIFO queue, where the later records of its group do not run.
/// - No log line shows a body or a receipt handle.
///
/// # Panics
/// If the library breaks a promise.
pub fn event(bytes: &[u8]) {
    let Ok(json) = std::str::from_utf8(bytes) else {
        return;
    };
    let (event, reading) = match (Event::try_from_json(json), Reading::of(json)) {
        (Err(_), Reading::NoEvent | Reading::Unclear) => return,
        (Err(error), Reading::Records(_)) => panic!("an event was refused: {error}"),
        (Ok(_), Reading::NoEvent) => panic!("this is no event"),
        (Ok(event), reading) => (event, reading),
    };
    let bench = Bench::new(HANDLER.with(Handler::clone));
    let (answer, logged) = log::of(|| runtime::block_on(bench.try_run(&event)));
    let runs = RUNS.take();
    let Reading::Records(records) = reading else {
        return;
    };
    if logged.contains(log::CANARY) {
        let allowed = records.iter().any(|record| record.may_show_canary);
        assert!(allowed, "the log shows what it must not: {logged}");
    }
    let answer = match answer {
        Err(EventError::NoMessageId { index }) => {
            assert!(records[index].id.is_none(), "record {index} has an id");
            assert!(runs.is_empty() && bench.store().requests() == 0);
            return;
        }
        Err(error) => panic!("an event was not answered: {error}"),
        Ok(answer) => answer,
    };
    let done = succeeded(&runs);
    check_answer(&records, &answer, &done);
    match records.iter().any(|record| record.is_fifo) {
        true => check_groups(&records, &runs),
        false => check_isolation(&records, &answer),
    }
    if !done.is_empty() {
        runtime::block_on(bench.try_run(&event)).expect("an event that was answered before");
        let again = RUNS.take();
        let again = again.iter().find(|run| done.contains(&*run.key));
        assert!(again.is_none(), "a completed key was handled again");
    }
}

/// The keys that were handled, after a check that each was handled once.
fn succeeded(runs: &[Run]) -> HashSet<String> {
    let mut seen = HashSet::new();
    for run in runs {
        assert!(seen.insert(&run.key), "a key was handled twice in a batch");
    }
    let succeeded = runs.iter().filter(|run| run.succeeded);
    succeeded.map(|run| run.key.clone()).collect()
}

fn check_answer(records: &[Record], answer: &Answer, done: &HashSet<String>) {
    let ids: HashSet<_> = records.iter().map(Record::id).collect();
    let mut retried = HashSet::new();
    for id in answer.retried() {
        assert!(ids.contains(&**id), "{id:?} is none of the event's ids");
        assert!(retried.insert(&**id), "{id:?} is reported twice");
    }
    for record in records.iter().filter(|one| !retried.contains(one.id())) {
        match &record.fate {
            Fate::Runs { key, .. } => assert!(
                done.contains(key),
                "{:?} is acknowledged, and nobody has handled it",
                record.id()
            ),
            Fate::Terminal => panic!("{:?} is acknowledged unread", record.id()),
            Fate::Unclear => {}
        }
    }
}

/// In a standard queue, a record fails only by itself, with the first record of its key, or with a record of the same
/// id.
fn check_isolation(records: &[Record], answer: &Answer) {
    if records.iter().any(|one| matches!(one.fate, Fate::Unclear)) {
        return;
    }
    let mut fails_by_key = HashMap::new();
    let mut failed = HashSet::new();
    for record in records {
        let fails = match &record.fate {
            Fate::Runs { key, fails } => *fails_by_key.entry(key).or_insert(*fails),
            _ => true,
        };
        if fails {
            failed.insert(record.id());
        }
    }
    let retried: HashSet<_> = answer.retried().iter().map(String::as_str).collect();
    assert_eq!(retried, failed, "what is returned is not what failed");
}

/// In a FIFO queue, a group runs in the event's order, and stops at a failure.
fn check_groups(records: &[Record], runs: &[Run]) {
    let ids = records.iter().map(Record::id);
    let places: HashMap<_, _> = ids.zip(0..).collect();
    let has_places = places.len() == records.len();
    let mut last: HashMap<_, &Run> = HashMap::new();
    for run in runs {
        let Some(before) = last.insert(&run.group, run) else {
            continue;
        };
        assert!(
            before.succeeded,
            "a record ran behind a failed one of its group"
        );
        let in_order = places[&*before.id] < places[&*run.id];
        assert!(in_order || !has_places, "a group ran in another order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finds;

    /// The consumer's answer to an event, and the records read from `told`, which should describe the same event.
    fn answered(bodies: [&str; 2], told: [&str; 2]) -> (Vec<Record>, Answer) {
        let event = |bodies: [&str; 2]| {
            let records = bodies.map(sqs_once::testing::Record::text);
            Event::new(records)
        };
        let bench = Bench::new(HANDLER.with(Handler::clone));
        let answer = runtime::block_on(bench.run(event(bodies)));
        RUNS.take();
        match Reading::of(event(told).as_json()) {
            Reading::Records(records) => (records, answer),
            _ => panic!("it is an event"),
        }
    }

    const GOOD: &str = r#"{"order_id":"a"}"#;
    const FAILING: &str = r#"{"order_id":"b","then":"retry"}"#;

    fn run(id: &str, key: &str, succeeded: bool) -> Run {
        Run {
            id: id.to_owned(),
            group: Some("g".to_owned()),
            key: key.to_owned(),
            succeeded,
        }
    }

    #[test]
    fn every_broken_promise_is_found() {
        let bodies = [GOOD, FAILING];
        let (records, answer) = answered(bodies, bodies);
        finds("nobody has handled it", || {
            check_answer(&records, &answer, &HashSet::new());
        });
        finds("a key was handled twice in a batch", || {
            succeeded(&[run("m-1", "a", true), run("m-2", "a", true)]);
        });
        finds("a record ran behind a failed one of its group", || {
            check_groups(&records, &[run("m-1", "a", false), run("m-2", "b", true)]);
        });
        finds("a group ran in another order", || {
            check_groups(&records, &[run("m-2", "b", true), run("m-1", "a", true)]);
        });
        let (records, answer) = answered(bodies, ["no JSON", FAILING]);
        finds("is acknowledged unread", || {
            check_answer(&records, &answer, &HashSet::new());
        });
        let (records, answer) = answered(bodies, [GOOD, GOOD]);
        finds("what is returned is not what failed", || {
            check_isolation(&records, &answer);
        });
    }
}
