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
//! | [`DeadLetters`] | a dead-letter queue, joined with that table: looking, redriving, dropping |
//! | [`sdk_config`], [`account`] | the user's own AWS settings |

mod change;
mod dead_letters;
mod error;
mod keys;
mod letter;
mod name;
mod redrive;
mod sdk;
mod state;

pub use aws_config::SdkConfig;
pub use change::Change;
pub use dead_letters::DeadLetters;
pub use error::Error;
pub use keys::{Changed, Found, Keys};
pub use letter::{DeadLetter, KeyFrom, Standing};
pub use name::{KeyName, NameError};
pub use redrive::{Fate, Selection, Tally};
pub use sdk::{account, sdk_config, sqs_client};
pub use state::State;
