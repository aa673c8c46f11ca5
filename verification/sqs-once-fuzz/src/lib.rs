//! The fuzz targets of sqs-once. Each is a plain function of bytes that checks promises for any input, and panics if
//! one is broken.
//!
//! `bash verification/fuzz/run event` runs one of them under libFuzzer. The test `corpus` runs all of them over the
//! committed corpus without libFuzzer.
//!
//! | target | the bytes are | promise |
//! |---|---|---|
//! | [`event()`] | Lambda's event | only records whose handler ran are acknowledged; an unreadable record fails alone |
//! | [`envelope()`] | a message's body | each envelope yields its content, byte for byte, or its record is terminal |
//! | [`key()`] | two lists of key parts | equal parts have equal ids, different parts different ones |
//! | [`extraction()`] | an attribute, and a body | every extractor finds the same key, or none |
//! | [`item()`] | DynamoDB's answers | only an explicit answer grants a claim or frees a key |
//! | [`macros()`] | an attribute, and its item | an expansion that parses, or a compile error |

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod envelope;
mod event;
mod expansion;
mod extraction;
mod item;
mod json;
mod log;
mod parts;
mod runtime;

/// The macros as functions of tokens, because their own crate exports only macros.
#[path = "../../../crates/sqs-once-macros/src"]
mod implementation {
    pub(crate) mod business_key;
    pub(crate) mod disposition;
    pub(crate) mod expand;
    pub(crate) mod key;
    pub(crate) mod options;
    pub(crate) mod signature;
}
use implementation::{key, options, signature};

pub use envelope::envelope;
pub use event::event;
pub use expansion::macros;
pub use extraction::extraction;
pub use item::item;
pub use parts::key;

/// The name of a target and of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 6] = [
    ("event", event),
    ("envelope", envelope),
    ("key", key),
    ("extraction", extraction),
    ("item", item),
    ("macros", macros),
];

/// Asserts that a check panics, with these words in its message.
#[cfg(test)]
#[track_caller]
fn finds(expected: &str, check: impl FnOnce()) {
    let check = std::panic::AssertUnwindSafe(check);
    let panic = std::panic::catch_unwind(check).expect_err("the check finds nothing");
    let formatted = panic.downcast_ref().map(String::as_str);
    let said = formatted.or_else(|| panic.downcast_ref().copied());
    assert!(said.is_some_and(|said| said.contains(expected)), "{said:?}");
}
