//! The consumer: a handler with its key, its store and its settings.

#[cfg(feature = "opentelemetry")]
mod after_answer;
mod builder;
mod declared;
pub(crate) mod for_macros;
mod namesakes;
mod options;
mod runnable;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "testing")]
mod testing;

#[cfg(feature = "opentelemetry")]
pub(crate) use after_answer::AfterAnswer;
pub use builder::{Consumer, Keyed, Keyless, Ready, consumer, consumer_with};
pub use runnable::Runnable;
