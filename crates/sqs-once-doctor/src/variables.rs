//! The names of the library's environment variables, and the forms of their values. The doctor has a copy of this file. A
//! test compares them.

use std::time::Duration;

const PREFIX: &str = "SQS_ONCE_";

/// All variables, without their prefix.
const NAMES: [&str; 15] = [
    "ALSO_READ",
    "CONCURRENCY",
    "DEADLINE_MARGIN",
    "DISABLED",
    "DLQ_URL",
    "KEY_SECRET_ARN",
    "LARGE_MESSAGES",
    "LEASE_MARGIN",
    "METRICS",
    "NAMESPACE",
    "RECORD_LEVELS",
    "REQUESTS",
    "RETENTION",
    "SERVICE",
    "TABLE",
];

/// Names that look like variables of the library, and the variables that do it.
const OTHERS: [(&str, &str); 3] = [
    ("LOG_SAMPLE_RATE", "POWERTOOLS_LOGGER_SAMPLE_RATE"),
    ("METRICS_NAMESPACE", "POWERTOOLS_METRICS_NAMESPACE"),
    ("POSTGRES_URL", "DATABASE_URL"),
];

/// The similarity, from 0 to 1, above which a name counts as a misspelling.
const NEAR: f64 = 0.8;

/// Returns whether a variable has the library's prefix but no meaning.
pub(crate) fn is_unknown(variable: &str) -> bool {
    variable
        .strip_prefix(PREFIX)
        .is_some_and(|name| !NAMES.contains(&name))
}

/// Returns the variable that is nearest to an unknown one, if it is near enough to be meant.
pub(crate) fn nearest(unknown: &str) -> Option<String> {
    let written = unknown.strip_prefix(PREFIX)?;
    if let Some((_, other)) = OTHERS.iter().find(|(name, _)| *name == written) {
        return Some((*other).to_owned());
    }
    let likeness = |name: &str| strsim::jaro_winkler(written, name);
    let name = NAMES
        .into_iter()
        .max_by(|one, other| likeness(one).total_cmp(&likeness(other)))?;
    (likeness(name) >= NEAR).then(|| [PREFIX, name].concat())
}

/// Parses a whole number with a unit: `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration_from(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}

/// Parses `true`, `1`, `false` or `0`.
pub(crate) fn switch_from(text: &str) -> Option<bool> {
    match text {
        "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}
