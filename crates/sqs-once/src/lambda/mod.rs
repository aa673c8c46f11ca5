//! Lambda's events and batch responses: [`run`](crate::run) starts a function.

#[cfg(feature = "opentelemetry")]
mod after_answer;
mod event;
mod next_event;
pub(crate) mod run;
mod service;
mod shutdown;

#[cfg(feature = "testing")]
pub(crate) use event::LenientEvent;
#[cfg(feature = "testing")]
pub(crate) use service::Reports;
