//! The consumer and what it runs: a handler, a batch handler, or a router.

mod builder;
pub(crate) mod for_macros;
mod handler;
mod handler_options;
mod handler_settings;
mod options;
mod routes;
mod runnable;
mod settings;
#[cfg(feature = "testing")]
mod testing;

pub use builder::Consumer;
pub use handler::{
    BatchHandler, Defaults, Handler, Keyed, Keyless, Named, OfEachMessage, OfMessages, One, Own,
    Runs, Shared, Together, Work,
};
pub use routes::{Router, router};
pub use runnable::Runnable;
