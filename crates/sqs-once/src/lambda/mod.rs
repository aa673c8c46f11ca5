//! Converts Lambda's events to batches, and reports to batch responses.

#[cfg(feature = "opentelemetry")]
mod after_answer;
mod event;
mod next_event;
mod run;
mod service;
mod shutdown;

pub use event::EventError;
#[cfg(feature = "testing")]
pub(crate) use event::LenientEvent;
pub use run::run;
#[cfg(feature = "testing")]
pub(crate) use service::Reports;
