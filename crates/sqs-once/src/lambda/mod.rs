//! The edge: Lambda's event in, its batch response out.

mod event;
mod run;
mod service;
mod shutdown;

pub use event::EventError;
pub use run::run;
