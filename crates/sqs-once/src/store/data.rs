//! The value of a completion.

use std::sync::Arc;

use serde::Serialize;

use crate::guarded::caught;

/// The maximum size of a completion's value, in bytes of JSON.
const MAX_DATA: usize = 256 * 1024;

pub(crate) fn recordable<T: Serialize>(result: &T) -> Result<Arc<str>, String> {
    // A serde error or a panic message may quote the value, which must not be logged.
    let json = caught(|| serde_json::to_string(result).ok()).ok().flatten();
    let json = json.ok_or("its result was not stored: it can't be written as JSON")?;
    match json.len() {
        0..=MAX_DATA => Ok(json.into()),
        len => Err(format!(
            "its result was not stored: it has {len} bytes, at most {MAX_DATA} are allowed"
        )),
    }
}
