//! CloudWatch's embedded metric format: log lines from which CloudWatch creates metrics.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};

use crate::time::Timestamp;

use super::{BatchMetrics, Value};

/// CloudWatch's limit of values per metric in one document.
const MOST_VALUES: usize = 100;

/// Writes a batch's metrics to stdout: one line for every hundred records.
pub(super) fn write(batch: &BatchMetrics, namespace: &str, service: &str, now: Timestamp) {
    let mut text = String::new();
    for document in documents(batch, namespace, service, now) {
        text.push_str(&document.to_string());
        text.push('\n');
    }
    // An error here can't be reported anywhere.
    let _ = io::stdout().lock().write_all(text.as_bytes());
}

/// The service is the only dimension, because each value of another dimension would create, and cost, separate metrics.
fn documents(batch: &BatchMetrics, namespace: &str, service: &str, now: Timestamp) -> Vec<Json> {
    let mut documents = Vec::new();
    for part in 0.. {
        let (mut metrics, mut values) = (Vec::new(), Map::new());
        for (name, value) in &batch.values {
            let unit = match value {
                Value::Durations(_) => "Milliseconds",
                _ => "Count",
            };
            let value = match value {
                Value::Count(count) if part == 0 => Some(json!(count)),
                Value::Count(_) => None,
                Value::Each(all) | Value::Durations(all) => {
                    all.chunks(MOST_VALUES).nth(part).map(|some| json!(some))
                }
            };
            if let Some(value) = value {
                metrics.push(json!({"Name": name, "Unit": unit}));
                values.insert((*name).to_owned(), value);
            }
        }
        if metrics.is_empty() {
            break;
        }
        let directive =
            json!({ "Namespace": namespace, "Dimensions": [["service"]], "Metrics": metrics });
        let about = json!({ "Timestamp": now.as_millis(), "CloudWatchMetrics": [directive] });
        values.insert("_aws".to_owned(), about);
        values.insert("service".to_owned(), service.into());
        documents.push(Json::Object(values));
    }
    documents
}
