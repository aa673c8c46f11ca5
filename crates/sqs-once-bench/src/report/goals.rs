//! What sqs-once aims at, beside what was measured.

use super::Results;
use crate::contender::{LIMIT, OURS, PROTOTYPE};

/// One aim.
pub(super) struct Goal {
    pub(super) text: String,
    pub(super) measured: f64,
    pub(super) holds: bool,
}

/// The aims whose figures were measured.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let mut at_most = |text: String, measured: Option<f64>, limit: f64| {
        goals.extend(measured.map(|measured| Goal {
            text: format!("{text} ≤ {limit}"),
            measured,
            holds: measured <= limit,
        }));
    };
    let latency = |contender, shape| Some(results.cell(contender, shape)?.latency_ms.median);
    let cpu = |contender, shape| Some(results.cell(contender, shape)?.cpu_us.median);
    let ratio = |left: Option<f64>, right: Option<f64>| Some(left? / right?);
    for shape in [
        "10 new",
        "100 new",
        "1000 new",
        "100, half duplicates",
        "1000, half duplicates",
    ] {
        let measured = ratio(latency(OURS, shape), latency(LIMIT, shape));
        at_most(format!("{shape}: latency to the limit's"), measured, 1.25);
    }
    for shape in ["100 new", "1000 new"] {
        let measured = ratio(cpu(OURS, shape), cpu(PROTOTYPE, shape));
        at_most(format!("{shape}: CPU to the prototype's"), measured, 1.5);
    }
    let sleeping = latency(OURS, "100 new, 20 ms each").map(|latency| latency - 20.0);
    let measured = ratio(sleeping, latency(OURS, "100 new"));
    at_most(
        "100 handlers of 20 ms: what is beyond 20 ms, to the no-op latency".to_owned(),
        measured,
        1.3,
    );
    let cold = |contender| Some(results.cold_ms.get(contender)?.median);
    at_most(
        "cold start to the limit's".to_owned(),
        ratio(cold(OURS), cold(LIMIT)),
        1.3,
    );
    let faster = [
        ("python-6", 100.0),
        ("python-1", 100.0),
        ("typescript", 10.0),
        ("by-hand-10", 5.0),
    ];
    for (contender, least) in faster {
        let measured = ratio(latency(contender, "100 new"), latency(OURS, "100 new"));
        goals.extend(measured.map(|measured| Goal {
            text: format!("100 new: times faster than {contender} ≥ {least}"),
            measured,
            holds: measured >= least,
        }));
    }
    goals
}
