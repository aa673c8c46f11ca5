//! Operations on the keys and dead letters of [`sqs_once`] consumers.
//!
//! `cargo sqs-once key`, `breaker` and `dlq` are the command line of this crate.
//!
//! | item | purpose |
//! |---|---|
//! | [`Keys`] | finds, lists and changes the keys in a table |
//! | [`KeyName`] | a key as users write it |
//! | [`State`] | the state of a key |
//! | [`Change`] | forgets or completes a key, opens or closes a breaker, unblocks a message group |
//! | [`BreakerName`], [`BreakerState`] | the breaker of a dependency |
//! | [`DeadLetters`] | lists, redrives and drops the messages of a dead-letter queue, with the state of their keys |
//! | [`Group`] | the dead letters with one cause |
//! | [`BusFailure`] | the report of an event bus on events that it did not deliver |
//! | [`sdk_config`], [`account`] | the user's own AWS settings |

mod block;
mod breaker;
mod bus_failure;
mod change;
mod dead_letters;
mod error;
mod group;
mod keys;
mod letter;
mod name;
mod redrive;
mod sdk;
mod state;

pub use aws_config::SdkConfig;
pub use breaker::{BreakerName, BreakerState};
pub use bus_failure::{BusFailure, FailedEvent};
pub use change::Change;
pub use dead_letters::DeadLetters;
pub use error::Error;
pub use group::Group;
pub use keys::Keys;
pub use letter::{DeadLetter, KeyFrom, PartFrom, Standing};
pub use name::{KeyName, NameError};
pub use redrive::{Fate, Selection, Tally};
pub use sdk::{account, sdk_config};
pub use state::State;
