//! What a message's card leads with.

use serde_json::Value;

/// The most characters of a title.
const LONGEST: usize = 60;
/// How many envelopes to look into.
const DEPTH: usize = 3;

/// The first id in a JSON body. Looks into the envelopes of SNS, EventBridge and S3.
pub(super) fn title(text: &str) -> Option<String> {
    let mut body: Value = serde_json::from_str(text).ok()?;
    for _ in 0..DEPTH {
        body = match inside(&body) {
            Some(inner) => inner,
            None => break,
        };
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
    let (_, id) = ids.min_by_key(|(name, _)| text.find(&format!("\"{name}")))?;
    Some(id.chars().take(LONGEST).collect())
}

/// The content of an envelope.
fn inside(body: &Value) -> Option<Value> {
    if let Some(message) = body["Message"]
        .as_str()
        .filter(|_| body["TopicArn"].is_string())
    {
        return serde_json::from_str(message).ok();
    }
    if body["detail"].is_object() && body["source"].is_string() {
        return Some(body["detail"].clone());
    }
    let object = &body["Records"][0]["s3"]["object"]["key"];
    object
        .is_string()
        .then(|| serde_json::json!({ "object id": object }))
}
