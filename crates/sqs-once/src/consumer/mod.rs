//! The consumer: a handler with its key, its store and its settings.

mod builder;
mod settings;

pub use builder::{Consumer, Keyed, Keyless, Ready, consumer};
