//! CloudWatch's embedded metric format: a line of the log that becomes metrics.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::time::Timestamp;

use super::{BatchMetrics, Unit, Value};

/// CloudWatch takes no more values of a metric in one document.
const MOST_VALUES: usize = 100;

/// Writes a batch's metrics to stdout, in as many lines as its values need: one, up to a hundred records.
pub(super) fn write(batch: &BatchMetrics, namespace: &str, service: &str, now: Timestamp) {
    let mut text = String::new();
    for document in documents(batch, namespace, service, now) {
        text.push_str(&document.to_string());
        text.push('\n');
    }
    // An error here can't be reported anywhere.
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// The service is the only dimension: each further value of one would be metrics of its own, and cost as much.
fn documents(batch: &BatchMetrics, namespace: &str, service: &str, now: Timestamp) -> Vec<Json> {
    let mut documents = Vec::new();
    for part in 0.. {
        let (mut metrics, mut values) = (Vec::new(), Map::new());
        for metric in &batch.values {
            let value = match &metric.value {
                Value::Count(count) if part == 0 => Some(json!(count)),
                Value::Count(_) => None,
                Value::Each(all) => all.chunks(MOST_VALUES).nth(part).map(|some| json!(some)),
            };
            if let Some(value) = value {
                let unit = match metric.unit {
                    Unit::Count => "Count",
                    Unit::Milliseconds => "Milliseconds",
                };
                metrics.push(json!({"Name": metric.name, "Unit": unit}));
                values.insert(metric.name.to_owned(), value);
            }
        }
        if metrics.is_empty() {
            break;
        }
        let directive = json!({
            "Namespace": namespace,
            "Dimensions": [["service"]],
            "Metrics": metrics,
        });
        let about = json!({
            "Timestamp": now.as_millis(),
            "CloudWatchMetrics": [directive],
        });
        values.insert("_aws".to_owned(), about);
        values.insert("service".to_owned(), service.into());
        documents.push(Json::Object(values));
    }
    documents
}
