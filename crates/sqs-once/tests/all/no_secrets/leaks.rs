//! Secrets that a handler, a hook, a store or the SDK puts into the log of each part of the library: each ends its process.

use std::env;

use serde_json::{Value, json};
use sqs_once::policy::Dependency;
use sqs_once::store::{Claim, StoreError, StoreErrorKind};
use sqs_once::{HandlerError, ResultExt};

use super::watch::LEAKED;
use crate::support::process::this_program;
use crate::support::sqs::{Sqs, Turn};
use crate::support::{Bench, TestStore, order, values, with};

const THIS: &str = "in_a_process_that_leaks";
const LEAK: &str = "TEST_LEAK";

/// The places of the leaks: in five modules of the library, and on a thread that a test starts.
const PLACES: [&str; 6] = [
    "batch/ledger.rs",
    "breaker/breakers.rs",
    "failed/visibility.rs",
    "guarded.rs",
    "once/invocation.rs",
    "no_secrets/leaks.rs",
];

fn secret<T>() -> Result<T, HandlerError> {
    Err("the card canary".into())
}

/// Refuses the claims of breakers with a secret.
fn refusing(claim: &Claim) -> Option<StoreError> {
    let error = || StoreError::new(StoreErrorKind::AccessDenied, "the key canary");
    claim.id.as_str().contains("breaker").then(error)
}

/// The drop panics with a secret.
struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("canary");
    }
}

async fn leak(place: &str) {
    let bench = Bench::new();
    let sqs = Sqs::always(Turn::Refuse("AccessDenied"));
    let down = || {
        let payments = Dependency::new("payments").failures(1);
        let down = values().call(async |_: Value| Err::<(), _>("down").unavailable("payments"));
        let consumer = bench.consumer(down.depends_on(payments));
        consumer.queue(sqs.queue())
    };
    let mut record = order("a");
    let consumer = match place {
        "batch/ledger.rs" => bench.consumer(values().call(async |_: Value| secret::<()>())),
        "breaker/breakers.rs" => down().store(TestStore::default().refusing_claims(refusing)),
        "failed/visibility.rs" => {
            let queue = "arn:aws:sqs:eu-central-1:123456789012:canary";
            record = with(record, json!({ "eventSourceARN": queue }));
            down()
        }
        "guarded.rs" => bench.consumer(values().call(async |_: Value| {
            let _held = Fragile;
            std::future::pending::<()>().await;
        })),
        "once/invocation.rs" => {
            let idempotency = bench.idempotency();
            let invocation = idempotency.until(bench.deadline());
            let _ = invocation.run("a", async || secret::<()>()).await;
            return;
        }
        _ => {
            let talks = || tracing::trace!(card = "canary");
            return std::thread::spawn(talks).join().unwrap();
        }
    };
    bench.deliver(&consumer, [record]).await;
}

#[tokio::test(start_paused = true)]
async fn in_a_process_that_leaks() {
    if let Ok(place) = env::var(LEAK) {
        leak(&place).await;
    }
}

#[test]
fn a_leak_ends_its_process_wherever_it_is_logged() {
    for place in PLACES {
        let mut process = this_program(module_path!(), THIS);
        let output = process.env(LEAK, place).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(101), "{place}: {said}");
        let line = said.lines().find(|line| line.starts_with(LEAKED));
        let place = format!("{place}:");
        let is_named = line.is_some_and(|line| line.contains(&place));
        assert!(is_named, "{place} {said}");
    }
    let harmless = this_program(module_path!(), THIS).status().unwrap();
    assert!(harmless.success());
}
