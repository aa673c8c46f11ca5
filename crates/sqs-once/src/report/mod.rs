//! Outcomes, counts and log levels: the data that `batch` collects and `telemetry` formats.

mod levels;
mod outcome;
mod record;
mod tally;

pub(crate) use levels::RecordLevels;
pub use outcome::Outcome;
pub(crate) use record::Report;
pub(crate) use tally::Tally;
