//! Detects consumers of one process that would treat each other's messages as duplicates.

use std::sync::{Mutex, PoisonError};

use crate::env::process_env;
use crate::error::ConfigError;
use crate::handler::HandlerType;
use crate::idempotency::Driver;
use crate::key::{KeyCodec, Namespace};

struct SetUp {
    store: String,
    namespace: Namespace,
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
        .find(|other| other.store == store && driver.is_namesake(&other.namespace, &other.codec));
    match namesake {
        Some(other) if other.handler == handler => {}
        Some(other) => {
            let namespace = driver.namespace.as_str();
            return Err(ConfigError::new(
                "the setting `namespace`",
                format!(
                    "is {namespace:?} for two handlers of this process, `{}` and `{}`, whose messages would be duplicates \
                     of each other, or have the same tokens",
                    other.handler.name, handler.name
                ),
                "a namespace for each",
            ));
        }
        None => consumers.push(SetUp {
            store,
            namespace: driver.namespace.clone(),
            codec: driver.codec.clone(),
            handler,
        }),
    }
    Ok(())
}
