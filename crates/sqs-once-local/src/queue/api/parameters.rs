//! Reads a request's parameters and checks their types, presence and limits.

use super::refused::Refused;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Parses the request, which must be a JSON object.
pub(super) fn parse(body: &[u8]) -> Result<Value, Refused> {
    let request = serde_json::from_slice(body).map_err(unreadable)?;
    match request {
        Value::Object(_) => Ok(request),
        _ => Err(unreadable("the request is not an object")),
    }
}

/// Reads the parameters that an operation knows. Ignores others.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Refused> {
    fields(value)?;
    T::deserialize(value).map_err(unreadable)
}

fn fields(value: &Value) -> Result<&Map<String, Value>, Refused> {
    let fields = value.as_object();
    fields.ok_or_else(|| unreadable("an entry is not an object"))
}

fn unreadable(error: impl ToString) -> Refused {
    Refused::new("SerializationException", error.to_string())
}

/// Reads a parameter that may be missing.
pub(super) fn optional<T: DeserializeOwned>(
    request: &Value,
    name: &str,
) -> Result<Option<T>, Refused> {
    let value = fields(request)?.get(name).unwrap_or(&Value::Null);
    Option::deserialize(value).map_err(unreadable)
}

/// Reads a text that must be there and not be empty.
pub(super) fn text(request: &Value, name: &str) -> Result<String, Refused> {
    Ok(required(name, &optional(request, name)?)?.to_owned())
}

/// Refuses a parameter that is missing or empty.
pub(super) fn required<'a>(name: &str, value: &'a Option<String>) -> Result<&'a str, Refused> {
    let value = value.as_deref().filter(|value| !value.is_empty());
    value.ok_or_else(|| Refused::missing(name))
}

/// The queue's name: the last part of its URL, or the name itself.
pub(super) fn queue(request: &Value) -> Result<String, Refused> {
    let url = text(request, "QueueUrl")?;
    let name = url.trim_end_matches('/').rsplit('/').next();
    Ok(name.unwrap_or(&url).to_owned())
}

/// Checks that a number is within its limits.
pub(super) fn within(
    name: &str,
    value: Option<i64>,
    limits: RangeInclusive<u32>,
) -> Result<Option<u32>, Refused> {
    let Some(value) = value else { return Ok(None) };
    match u32::try_from(value) {
        Ok(number) if limits.contains(&number) => Ok(Some(number)),
        _ => {
            let (least, most) = (limits.start(), limits.end());
            let reason = format!("Must be between {least} and {most}");
            Err(Refused::value(name, &value, reason))
        }
    }
}

pub(super) fn count(
    name: &str,
    value: Option<i64>,
    limits: RangeInclusive<u32>,
    default: u32,
) -> Result<usize, Refused> {
    Ok(within(name, value, limits)?.unwrap_or(default) as usize)
}

/// Checks that a time in whole seconds is within its limits.
pub(super) fn seconds(
    name: &str,
    value: Option<i64>,
    limits: RangeInclusive<u32>,
) -> Result<Option<Duration>, Refused> {
    let seconds = within(name, value, limits)?;
    Ok(seconds.map(|seconds| Duration::from_secs(seconds.into())))
}
