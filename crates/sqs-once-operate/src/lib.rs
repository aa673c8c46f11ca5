//! What people do to the keys and dead letters of [`sqs_once`]'s consumers, apart from running them.
//!
//! `cargo sqs-once key` and `cargo sqs-once dlq` are this crate at a terminal.
//!
//! | part | what it is |
//! |---|---|
//! | [`Keys`] | what a table knows of a business key, and putting that right |
//! | [`KeyName`] | what people call a key |
//! | [`State`] | how far the work for a key has come |
//! | [`Change`] | forgetting a key, completing a key |
//! | [`sdk_config`] | the user's own AWS settings |

mod change;
mod error;
mod keys;
mod name;
mod sdk;
mod state;

pub use change::Change;
pub use error::Error;
pub use keys::{Changed, Found, Keys};
pub use name::{KeyName, NameError};
pub use sdk::sdk_config;
pub use state::State;
