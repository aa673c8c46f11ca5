//! What fuzzing holds sqs-once to: promises about any input, each a plain function of bytes that panics where
//! one is broken.
//!
//! `bash verification/fuzz/run event` runs one of them under libFuzzer; the test `corpus` runs all of them over the committed
//! corpus, without it.
//!
//! | target | the bytes are | what is promised |
//! |---|---|---|
//! | [`event()`] | Lambda's event | nothing is acknowledged whose handler did not run; what can't be read fails alone |
//! | [`envelope()`] | a message's body | each envelope holds what it says, byte for byte, or its record is terminal |
//! | [`key()`] | two lists of key parts | equal parts have equal ids, different parts different ones |
//! | [`extraction()`] | an attribute, and a body | every extractor finds the same key in it, or none |
//! | [`item()`] | what DynamoDB answers | no answer is taken for a granted claim or a free key that does not say so |
//! | [`macros()`] | an attribute, and what it stands on | an expansion that parses, or a compile error |

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

/// The macros as functions of tokens: their own crate exports nothing but macros.
#[path = "../../../crates/sqs-once-macros/src"]
mod implementation {
    pub(crate) mod derive;
    pub(crate) mod expand;
    pub(crate) mod key;
    pub(crate) mod options;
    pub(crate) mod signature;
    pub(crate) mod spelling;
}
use implementation::{key, options, signature, spelling};

pub use envelope::envelope;
pub use event::event;
pub use expansion::macros;
pub use extraction::extraction;
pub use item::item;
pub use parts::key;

/// A target by its name, which is that of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 6] = [
    ("event", event),
    ("envelope", envelope),
    ("key", key),
    ("extraction", extraction),
    ("item", item),
    ("macros", macros),
];
