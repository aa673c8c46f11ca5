//! A consumer's settings, and what it runs: a handler, a batch handler, or a router.

pub(crate) mod builder;
mod event_error;
pub(crate) mod for_macros;
pub(crate) mod handler;
mod handler_options;
mod handler_settings;
mod options;
pub(crate) mod routes;
mod runnable;
mod settings;
#[cfg(feature = "testing")]
mod testing;

#[cfg(feature = "sqs")]
pub use crate::failed::Queue;
pub use crate::idempotency::{Cache, Margins};
pub(crate) use builder::Consumer;
pub use event_error::EventError;
pub(crate) use handler::Handler;
pub use handler::{
    Defaults, Keyed, Keyless, Named, OfEachMessage, OfMessages, One, Together, Work,
};
pub(crate) use routes::Router;
pub use runnable::Runnable;
