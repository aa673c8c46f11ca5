//! The goals of sqs-once, with the measured figures.

use std::fmt;

use serde::Serialize;

use super::{Results, digits, short, title};
use crate::contender::{BY_HAND_10, LIMIT, OURS, PROTOTYPE};
use crate::shape::Shape;

#[derive(Debug, Serialize)]
pub(super) struct Goal {
    pub(super) text: String,
    #[serde(skip)]
    bound: Bound,
    pub(super) measured: Option<f64>,
    /// `None` if it was not measured.
    pub(super) holds: Option<bool>,
    pub(super) note: String,
}

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
        }
    }
}

impl Goal {
    fn new(aim: &str, bound: Bound, measured: Option<f64>, note: Option<String>) -> Self {
        Self {
            text: format!("{aim} {bound}"),
            bound,
            measured,
            holds: measured.map(|measured| bound.holds(measured)),
            note: note.unwrap_or_default(),
        }
    }

    /// The measured figure, with enough digits to show whether it meets the goal.
    pub(super) fn figure(&self) -> Option<String> {
        let measured = self.measured?;
        let agrees = |text: &String| {
            let shown = text.parse().ok();
            shown.map(|shown| self.bound.holds(shown)) == self.holds
        };
        let mut texts = (3..12).map(|count| digits(measured, count));
        Some(texts.find(agrees).unwrap_or_else(|| measured.to_string()))
    }
}

/// The batches whose latency is compared with the limit's.
const TO_THE_LIMIT: [(&str, f64); 7] = [
    ("0.145 of a core, 100 new", 1.5),
    ("10 new", 1.25),
    ("100 new", 1.15),
    ("1000 new", 1.25),
    ("10, half duplicates", 1.25),
    ("100, half duplicates", 1.25),
    ("1000, half duplicates", 1.25),
];

/// The batches whose CPU time is compared with the prototype's.
const TO_THE_PROTOTYPE: [(&str, f64); 3] = [("10 new", 1.3), ("100 new", 1.0), ("1000 new", 1.0)];

/// The cold starts that are compared with the limit's, by the share of a core.
const COLD_STARTS: [(Option<&str>, f64); 2] = [(Some("0.145 of a core"), 1.8), (None, 1.3)];

/// How many times faster than these contenders sqs-once should be.
const FASTER: [(&str, f64); 4] = [
    ("python-1", 100.0),
    ("python-6", 100.0),
    ("typescript", 10.0),
    (BY_HAND_10, 5.0),
];

/// Every goal, whether its figure was measured or not.
pub(super) fn goals(of: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (shape, most) in TO_THE_LIMIT {
        goals.push(Goal::new(
            &format!("{shape}: latency to the limit's"),
            Bound::AtMost(most),
            ratio(of.latency(OURS, shape), of.latency(LIMIT, shape)),
            None,
        ));
    }
    for (contender, least) in FASTER {
        goals.push(faster(of, contender, least));
    }
    for (shape, most) in TO_THE_PROTOTYPE {
        let (ours, prototype) = (of.cpu(OURS, shape), of.cpu(PROTOTYPE, shape));
        let note = ours.zip(prototype).map(|(ours, prototype)| {
            let (ours, prototype) = (short(ours), short(prototype));
            format!("{ours} µs a record, the prototype {prototype} µs")
        });
        goals.push(Goal::new(
            &format!("{shape}: CPU to the prototype's"),
            Bound::AtMost(most),
            ratio(ours, prototype),
            note,
        ));
    }
    let beyond = |contender| {
        let sleeping = of.latency(contender, "100 new, 20 ms each")?;
        ratio(Some(sleeping - 20.0), of.latency(contender, "100 new"))
    };
    goals.push(Goal::new(
        "100 handlers of 20 ms: what is beyond 20 ms, to the no-op latency",
        Bound::AtMost(1.3),
        beyond(OURS),
        beyond(LIMIT).map(|limit| format!("the limit itself is {} ×", short(limit))),
    ));
    let cached = of.cell(OURS, "100 duplicates, cached");
    goals.push(Goal::new(
        "100 duplicates, cached: requests",
        Bound::AtMost(0.0),
        cached.map(|cell| cell.requests * cell.records as f64),
        None,
    ));
    goals.extend(second_copies(of));
    goals.extend(COLD_STARTS.map(|(share, most)| cold_start(of, share, most)));
    goals.push(memory(of));
    goals
}

impl Results {
    fn latency(&self, contender: &str, shape: &str) -> Option<f64> {
        Some(self.cell(contender, shape)?.latency_ms.median)
    }

    fn cpu(&self, contender: &str, shape: &str) -> Option<f64> {
        Some(self.cell(contender, shape)?.cpu_us.median)
    }

    fn cold(&self, contender: &str, share: Option<&str>) -> Option<f64> {
        Some(self.cold_start(contender, share)?.latency_ms.median)
    }
}

fn ratio(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    Some(left? / right?)
}

/// If the limit itself is not fast enough, the note says so: no contender with the same requests can be faster.
fn faster(of: &Results, contender: &str, least: f64) -> Goal {
    let theirs = of.latency(contender, "100 new");
    let limit = ratio(theirs, of.latency(LIMIT, "100 new")).filter(|limit| *limit < least);
    Goal::new(
        &format!("100 new: times faster than {}", title(contender)),
        Bound::AtLeast(least),
        ratio(theirs, of.latency(OURS, "100 new")),
        limit.map(|limit| format!("the limit itself is {} ×", short(limit))),
    )
}

/// A key costs its claim and its completion, regardless of its number of copies in a batch.
fn second_copies(of: &Results) -> Option<Goal> {
    let shapes = Shape::all();
    let shape = shapes.iter().find(|shape| shape.copies == 2)?;
    let beyond = of.cell(OURS, shape.name).map(|cell| {
        let units = (cell.units.write + cell.units.read) * cell.records as f64;
        ((units - 2.0 * shape.fresh() as f64) * 1000.0).round() / 1000.0
    });
    Some(Goal::new(
        &format!("{}: request units for the second copies", shape.name),
        Bound::AtMost(0.0),
        beyond,
        None,
    ))
}

fn cold_start(of: &Results, share: Option<&str>, most: f64) -> Goal {
    let limit = of.cold(LIMIT, share);
    let others = [PROTOTYPE, BY_HAND_10].into_iter().filter_map(|contender| {
        let ratio = short(ratio(of.cold(contender, share), limit)?);
        Some(format!("{}: {ratio} ×", title(contender)))
    });
    let others: Vec<_> = others.collect();
    Goal::new(
        &match share {
            Some(share) => format!("{share}: cold start to the limit's"),
            None => "cold start to the limit's".to_owned(),
        },
        Bound::AtMost(most),
        ratio(of.cold(OURS, share), limit),
        Some(others.join("; ")),
    )
}

fn memory(of: &Results) -> Goal {
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
    Goal::new(
        "10000 new: peak memory of the process to the event's size",
        Bound::AtMost(3.0),
        events(OURS),
        Some(notes.join("; ")),
    )
}
