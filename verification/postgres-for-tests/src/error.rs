//! Errors, worded for the person who runs the tests.

use anyhow::Result;
use std::path::Path;

/// Names a file that can't be read or written, for `with_context`.
pub(crate) fn file(path: impl AsRef<Path>) -> impl FnOnce() -> String {
    move || format!("{} can't be read or written", path.as_ref().display())
}

/// Panics on an error, because a test cannot succeed without its server.
#[track_caller]
pub(crate) fn or_panic<T>(result: Result<T>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("no PostgreSQL for this test: {error:#}"),
    }
}
