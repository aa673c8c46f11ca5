//! The consumer: a handler with its key, its store and its settings.

mod builder;
pub(crate) mod for_macros;
mod options;
mod routes;
mod runnable;
mod settings;
#[cfg(feature = "testing")]
mod testing;

pub use builder::{Consumer, Keyed, Keyless, Ready, consumer, consumer_with};
pub use routes::{Routes, router};
pub use runnable::Runnable;
#[cfg(feature = "opentelemetry")]
pub(crate) use settings::AfterAnswer;
