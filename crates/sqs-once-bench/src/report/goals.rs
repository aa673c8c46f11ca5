//! What sqs-once aims at, beside what was measured.

use serde::Serialize;

use super::{Results, short, title};
use crate::contender::{BY_HAND_10, LIMIT, OURS, PROTOTYPE};
use crate::measure::Cell;
use crate::shape::Shape;

/// One aim.
#[derive(Debug, Serialize)]
pub(super) struct Goal {
    pub(super) text: String,
    pub(super) measured: f64,
    pub(super) holds: bool,
    /// What else the measurement says of it.
    pub(super) note: String,
}

/// The batches whose latency is held against the limit's.
const TO_THE_LIMIT: [&str; 6] = [
    "10 new",
    "100 new",
    "1000 new",
    "10, half duplicates",
    "100, half duplicates",
    "1000, half duplicates",
];

/// How many times faster than these sqs-once should be.
const FASTER: [(&str, f64); 4] = [
    ("python-1", 100.0),
    ("python-6", 100.0),
    ("typescript", 10.0),
    (BY_HAND_10, 5.0),
];

/// The aims whose figures were measured.
pub(super) fn goals(results: &Results) -> Vec<Goal> {
    let of = Measured(results);
    let mut goals: Vec<Option<Goal>> = Vec::new();
    for shape in TO_THE_LIMIT {
        let measured = ratio(of.latency(OURS, shape), of.latency(LIMIT, shape));
        let text = format!("{shape}: latency to the limit's");
        goals.push(at_most(text, measured, 1.25, String::new()));
    }
    for (contender, least) in FASTER {
        goals.push(faster(&of, contender, least));
    }
    for shape in ["100 new", "1000 new"] {
        let (ours, prototype) = (of.cpu(OURS, shape), of.cpu(PROTOTYPE, shape));
        let note = ours.zip(prototype).map(|(ours, prototype)| {
            let (ours, prototype) = (short(ours), short(prototype));
            format!("{ours} µs a record, the prototype {prototype} µs")
        });
        let text = format!("{shape}: CPU to the prototype's");
        goals.push(at_most(
            text,
            ratio(ours, prototype),
            1.5,
            note.unwrap_or_default(),
        ));
    }
    let sleeping = of.latency(OURS, "100 new, 20 ms each");
    goals.push(at_most(
        "100 handlers of 20 ms: what is beyond 20 ms, to the no-op latency".to_owned(),
        ratio(
            sleeping.map(|latency| latency - 20.0),
            of.latency(OURS, "100 new"),
        ),
        1.3,
        String::new(),
    ));
    let cached = of.cell(OURS, "100 duplicates, cached");
    goals.push(at_most(
        "100 duplicates, cached: requests".to_owned(),
        cached.map(|cell| cell.requests * cell.records as f64),
        0.0,
        String::new(),
    ));
    goals.push(second_copies(&of));
    goals.push(cold_start(&of));
    goals.push(memory(&of));
    goals.into_iter().flatten().collect()
}

struct Measured<'a>(&'a Results);

impl<'a> Measured<'a> {
    fn cell(&self, contender: &str, shape: &str) -> Option<&'a Cell> {
        self.0.cell(contender, shape)
    }

    fn latency(&self, contender: &str, shape: &str) -> Option<f64> {
        Some(self.cell(contender, shape)?.latency_ms.median)
    }

    fn cpu(&self, contender: &str, shape: &str) -> Option<f64> {
        Some(self.cell(contender, shape)?.cpu_us.median)
    }

    fn cold(&self, contender: &str) -> Option<f64> {
        Some(self.0.cold_ms.get(contender)?.median)
    }
}

fn ratio(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    Some(left? / right?)
}

fn at_most(text: String, measured: Option<f64>, limit: f64, note: String) -> Option<Goal> {
    measured.map(|measured| Goal {
        text: format!("{text} ≤ {limit}"),
        measured,
        holds: measured <= limit,
        note,
    })
}

/// Where the limit itself is not that much faster, nothing that makes its requests can be.
fn faster(of: &Measured<'_>, contender: &str, least: f64) -> Option<Goal> {
    let theirs = of.latency(contender, "100 new");
    let measured = ratio(theirs, of.latency(OURS, "100 new"))?;
    let limit = ratio(theirs, of.latency(LIMIT, "100 new")).filter(|limit| *limit < least);
    Some(Goal {
        text: format!("100 new: times faster than {} ≥ {least}", title(contender)),
        measured,
        holds: measured >= least,
        note: limit.map_or_else(String::new, |limit| {
            format!("the limit itself is {} ×", short(limit))
        }),
    })
}

/// A key costs its claim and its completion, however many copies of it a batch holds.
fn second_copies(of: &Measured<'_>) -> Option<Goal> {
    let shapes = Shape::all();
    let shape = shapes.iter().find(|shape| shape.copies == 2)?;
    let cell = of.cell(OURS, shape.name)?;
    let units = (cell.units.write + cell.units.read) * cell.records as f64;
    let beyond = units - 2.0 * shape.fresh() as f64;
    at_most(
        format!("{}: request units for the second copies", shape.name),
        Some((beyond * 1000.0).round() / 1000.0),
        0.0,
        String::new(),
    )
}

fn cold_start(of: &Measured<'_>) -> Option<Goal> {
    let limit = of.cold(LIMIT)?;
    let others = [PROTOTYPE, BY_HAND_10].into_iter().filter_map(|contender| {
        let ratio = short(of.cold(contender)? / limit);
        Some(format!("{}: {ratio} ×", title(contender)))
    });
    let others: Vec<_> = others.collect();
    let measured = ratio(of.cold(OURS), Some(limit));
    at_most(
        "cold start to the limit's".to_owned(),
        measured,
        1.3,
        others.join("; "),
    )
}

fn memory(of: &Measured<'_>) -> Option<Goal> {
    let events = |contender| {
        let cell = of.cell(contender, "10000 new")?;
        Some(cell.memory_mb? * 1e6 / cell.event_bytes as f64)
    };
    let process = of.cell(OURS, "1 new").and_then(|cell| cell.memory_mb);
    let notes = [
        process.map(|mb| format!("a process that handles one record has {} MB", short(mb))),
        events(LIMIT).map(|limit| format!("the limit itself is {} ×", short(limit))),
    ];
    let notes: Vec<_> = notes.into_iter().flatten().collect();
    at_most(
        "10000 new: peak memory of the process to the event's size".to_owned(),
        events(OURS),
        3.0,
        notes.join("; "),
    )
}
