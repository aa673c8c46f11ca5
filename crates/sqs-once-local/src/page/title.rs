//! What a message's card leads with, and the content of its envelopes.

use serde_json::Value;
use std::borrow::Cow;

const LONGEST: usize = 60;
/// How many envelopes to open.
const DEPTH: usize = 3;

/// The content of a body in the envelopes of SNS and EventBridge, or the body.
pub(super) fn opened(body: &str) -> Cow<'_, str> {
    let mut content = Cow::Borrowed(body);
    for _ in 0..DEPTH {
        match inside(&content) {
            Some(inner) => content = Cow::Owned(inner),
            None => break,
        }
    }
    content
}

fn inside(text: &str) -> Option<String> {
    let body: Value = serde_json::from_str(text).ok()?;
    if body["TopicArn"].is_string() {
        return body["Message"].as_str().map(str::to_owned);
    }
    let is_event = body["detail"].is_object() && body["source"].is_string();
    is_event.then(|| body["detail"].to_string())
}

/// The first id in a JSON content, or the object in a notification of S3.
pub(super) fn title(content: &str) -> Option<String> {
    let body: Value = serde_json::from_str(content).ok()?;
    let short = |text: &str| text.chars().take(LONGEST).collect();
    if let Some(object) = body["Records"][0]["s3"]["object"]["key"].as_str() {
        return Some(short(object));
    }
    let ids = body.as_object()?.iter().filter_map(|(name, value)| {
        let is_id = name.to_ascii_lowercase().ends_with("id");
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        is_id.then_some((name, value))
    });
    // The fields of a parsed object are sorted by name.
    let (_, id) = ids.min_by_key(|(name, _)| content.find(&format!("\"{name}")))?;
    Some(short(&id))
}
