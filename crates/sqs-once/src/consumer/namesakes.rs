//! Consumers of one process that would take each other's messages for duplicates.

use std::sync::{Mutex, PoisonError};

use crate::config::shared_namespace;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::handler::HandlerType;
use crate::idempotency::Driver;
use crate::key::KeyCodec;

/// A consumer that was set up in this process.
struct SetUp {
    store: String,
    codec: KeyCodec,
    handler: HandlerType,
}

static CONSUMERS: Mutex<Vec<SetUp>> = Mutex::new(Vec::new());

/// Refuses a consumer whose keys are those of another handler in this process.
///
/// On Lambda alone: there a process has the consumers that its `main` makes, and each is at work. A test program
/// makes consumers by the dozen that never meet, of the next version of a handler for instance.
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
            let names = [other.handler, handler].map(HandlerType::name);
            return Err(shared_namespace(driver.namespace.as_str(), names));
        }
        None => consumers.push(SetUp {
            store,
            codec: driver.codec.clone(),
            handler,
        }),
    }
    Ok(())
}
