//! What the item of a key keeps of a handler's result.

use std::sync::Arc;

use serde::Serialize;

use crate::guarded::caught;

/// The most bytes of JSON that are recorded for a key.
const MAX_DATA: usize = 256 * 1024;

/// A result as it is recorded, or why it can't be.
pub(crate) fn recordable<T: Serialize>(result: &T) -> Result<Arc<str>, String> {
    // A message of serde or of a panic may quote the value, which must not be logged.
    let json = caught(|| serde_json::to_string(result).ok()).ok().flatten();
    let json = json.ok_or("its result was not recorded: it can't be written as JSON")?;
    match json.len() {
        0..=MAX_DATA => Ok(json.into()),
        len => Err(format!(
            "its result was not recorded: it has {len} bytes, at most {MAX_DATA} are kept"
        )),
    }
}
