//! The protocol: pure decisions, and the small driver that takes them to the store and back.

mod driver;
mod protocol;

pub(crate) use driver::Driver;
pub use protocol::{Admission, Completion, Mode, Refusal, on_claimed, on_completed, on_found};
