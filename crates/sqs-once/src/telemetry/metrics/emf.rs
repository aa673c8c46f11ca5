//! CloudWatch's embedded metric format: log lines from which CloudWatch creates metrics.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::json;

use crate::telemetry::output;
use crate::time::Timestamp;

use super::{BatchMetrics, Value};

/// CloudWatch's limit of values per metric in one document.
const MOST_VALUES: usize = 100;

/// Writes a batch's metrics to stdout: one line for every hundred messages of a route.
pub(super) fn write(batch: &BatchMetrics, namespace: &str, service: &str, now: Timestamp) {
    let mut lines = Vec::new();
    for group in &batch.groups {
        for part in 0.. {
            let values = group.values.iter();
            let values: Vec<_> = values
                .filter_map(|(name, value)| Some((*name, Values::of(value, part)?)))
                .collect();
            if values.is_empty() {
                break;
            }
            let document = Document {
                values,
                namespace,
                service,
                route: group.route.as_deref(),
                now,
            };
            // Can't fail: writing to a `Vec` never fails, and every value is valid JSON.
            let _ = serde_json::to_writer(&mut lines, &document);
            lines.push(b'\n');
        }
    }
    output::write(&lines);
}

/// A metric's values in one document.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Values<'a> {
    Count(u64),
    Each(&'a [f64]),
    Durations(&'a [f64]),
}

impl<'a> Values<'a> {
    fn of(value: &'a Value, part: usize) -> Option<Self> {
        let chunk = |all: &'a [f64]| all.chunks(MOST_VALUES).nth(part);
        match value {
            Value::Count(count) => (part == 0).then_some(Self::Count(*count)),
            Value::Each(all) => chunk(all).map(Self::Each),
            Value::Durations(all) => chunk(all).map(Self::Durations),
        }
    }

    fn unit(&self) -> &'static str {
        match self {
            Self::Count(_) | Self::Each(_) => "Count",
            Self::Durations(_) => "Milliseconds",
        }
    }
}

struct Document<'a> {
    values: Vec<(&'static str, Values<'a>)>,
    namespace: &'a str,
    service: &'a str,
    route: Option<&'a str>,
    now: Timestamp,
}

impl Serialize for Document<'_> {
    /// The dimensions are the service and the route, because each value of another dimension would create, and cost,
    /// separate metrics. The metrics of a route count for the service too.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let metrics = self.values.iter();
        let metrics = metrics.map(|(name, values)| json!({"Name": name, "Unit": values.unit()}));
        let metrics: Vec<_> = metrics.collect();
        let dimensions = match self.route {
            None => json!([["service"]]),
            Some(_) => json!([["service"], ["service", "route"]]),
        };
        let directive = json!({
            "Namespace": self.namespace,
            "Dimensions": dimensions,
            "Metrics": metrics,
        });
        let about = json!({
            "Timestamp": self.now.as_millis(),
            "CloudWatchMetrics": [directive],
        });
        let mut document = serializer.serialize_map(None)?;
        document.serialize_entry("_aws", &about)?;
        document.serialize_entry("service", &dimension(self.service))?;
        if let Some(route) = self.route {
            document.serialize_entry("route", &dimension(route))?;
        }
        for (name, values) in &self.values {
            document.serialize_entry(name, values)?;
        }
        document.end()
    }
}

/// Returns a name as CloudWatch takes it. It drops metrics whose dimensions are not ASCII.
fn dimension(name: &str) -> String {
    name.replace(
        |char: char| !char.is_ascii() || char.is_ascii_control(),
        "_",
    )
}
