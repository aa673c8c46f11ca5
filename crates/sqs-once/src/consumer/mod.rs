//! The consumer: a handler with its key, its store and its settings.

mod builder;
mod options;
mod runnable;
mod settings;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "testing")]
mod testing;

pub use builder::{Consumer, Keyed, Keyless, Ready, consumer, consumer_with};
pub use runnable::Runnable;
