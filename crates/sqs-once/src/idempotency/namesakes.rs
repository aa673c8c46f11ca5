//! Detects handlers of one process that would treat each other's messages as duplicates.

use std::any::{TypeId, type_name};
use std::sync::{Mutex, PoisonError};

use crate::config::NAMESPACE_VARIABLE;
use crate::env::process_env;
use crate::error::ConfigError;
use crate::key::{KeyCodec, Namespace};

use super::Driver;

/// A handler's type. Each function and each closure has a unique type; only function pointers share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerType {
    id: TypeId,
    /// For messages only: it may change with the compiler.
    pub(crate) name: &'static str,
}

impl HandlerType {
    pub(crate) fn of<H: 'static>() -> Self {
        Self {
            id: TypeId::of::<H>(),
            name: type_name::<H>(),
        }
    }
}

struct SetUp {
    store: String,
    namespace: Namespace,
    codec: KeyCodec,
    handler: HandlerType,
}

static HANDLERS: Mutex<Vec<SetUp>> = Mutex::new(Vec::new());

impl Driver {
    /// Refuses a handler that shares its keys with another handler in this process.
    ///
    /// Checks only on Lambda, where a process runs every consumer that its `main` creates. A test program may create
    /// many consumers that never run together, for example of two versions of a handler.
    pub(crate) fn check_namesakes(&self, handler: HandlerType) -> Result<(), ConfigError> {
        // One variable for two handlers is an error in any store.
        let any = || process_env(NAMESPACE_VARIABLE).map(|_| String::new());
        let store = self.store.identity().or_else(any);
        let (Some(store), Some(_)) = (store, process_env("AWS_LAMBDA_FUNCTION_NAME")) else {
            return Ok(());
        };
        let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
        let namesake = handlers
            .iter()
            .find(|other| other.store == store && self.is_namesake(&other.namespace, &other.codec));
        match namesake {
            Some(other) if other.handler == handler => {}
            Some(other) => {
                let namespace = self.namespace.as_str();
                return Err(ConfigError::new(
                    "the setting `namespace`",
                    format!(
                        "is {namespace:?} for two handlers of this process, `{}` and `{}`, whose messages would be \
                         duplicates of each other, or have the same tokens",
                        other.handler.name, handler.name
                    ),
                    "a namespace for each, in the code: SQS_ONCE_NAMESPACE overrides those of attributes",
                ));
            }
            None => handlers.push(SetUp {
                store,
                namespace: self.namespace.clone(),
                codec: self.codec.clone(),
                handler,
            }),
        }
        Ok(())
    }
}
