//! Detects consumers of one process that would treat each other's messages as duplicates.

use std::sync::{Mutex, PoisonError};

use crate::env::process_env;
use crate::error::ConfigError;
use crate::handler::HandlerType;
use crate::idempotency::Driver;
use crate::key::KeyCodec;

struct SetUp {
    store: String,
    codec: KeyCodec,
    handler: HandlerType,
}

static CONSUMERS: Mutex<Vec<SetUp>> = Mutex::new(Vec::new());

/// Refuses a consumer that shares its keys with another handler in this process.
///
/// Checks only on Lambda, where a process runs every consumer that its `main` creates. A test program may create many
/// consumers that never run together, for example of two versions of a handler.
pub(super) fn check(driver: &Driver, handler: HandlerType) -> Result<(), ConfigError> {
    let store = driver.store.identity();
    let (Some(store), Some(_)) = (store, process_env("AWS_LAMBDA_FUNCTION_NAME")) else {
        return Ok(());
    };
    let mut consumers = CONSUMERS.lock().unwrap_or_else(PoisonError::into_inner);
    let namesake = consumers
        .iter()
        .find(|other| other.store == store && other.codec == driver.codec);
    match namesake {
        Some(other) if other.handler == handler => {}
        Some(other) => {
            let namespace = driver.namespace.as_str();
            return Err(ConfigError::new(
                "the setting `namespace`",
                format!(
                    "is {namespace:?} for two handlers of this process, `{}` and `{}`, each of which would take the \
                     other's messages for duplicates",
                    other.handler.name, handler.name
                ),
                "a namespace for each",
            ));
        }
        None => consumers.push(SetUp {
            store,
            codec: driver.codec.clone(),
            handler,
        }),
    }
    Ok(())
}
