//! Detects handlers of one process that would treat each other's messages as duplicates.

use std::any::{TypeId, type_name};
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::NAMESPACE_VARIABLE;
use crate::env::process_env;
use crate::error::ConfigError;

use super::KeyRules;

/// A handler's type. Each function and each closure has a unique type; only function pointers share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandlerType {
    id: TypeId,
    /// For messages only: it may change with the compiler.
    pub(crate) name: &'static str,
}

impl HandlerType {
    pub(crate) fn of<H: 'static>() -> Self {
        Self::named::<H>(type_name::<H>())
    }

    pub(crate) fn named<H: 'static>(name: &'static str) -> Self {
        let id = TypeId::of::<H>();
        Self { id, name }
    }
}

#[derive(PartialEq)]
struct SetUp {
    store: String,
    /// The namespace, then the others.
    names: Vec<Arc<str>>,
    may_share: bool,
    handler: HandlerType,
}

static HANDLERS: Mutex<Vec<SetUp>> = Mutex::new(Vec::new());

impl KeyRules {
    /// Refuses a handler that shares its keys with another handler in this process.
    ///
    /// With `may_share`, another handler may have the same namespace.
    ///
    /// Checks only on Lambda, where a process runs every consumer that its `main` creates. A test program may create
    /// many consumers that never run together, for example of two versions of a handler.
    pub(crate) fn check_namesakes(
        &self,
        handler: HandlerType,
        may_share: bool,
    ) -> Result<(), ConfigError> {
        // One variable for two handlers is an error in any store.
        let any = || process_env(NAMESPACE_VARIABLE).map(|_| String::new());
        let store = self.driver.store.identity().or_else(any);
        let (Some(store), Some(_)) = (store, process_env("AWS_LAMBDA_FUNCTION_NAME")) else {
            return Ok(());
        };
        let mut handlers = HANDLERS.lock().unwrap_or_else(PoisonError::into_inner);
        let names = self.names();
        let mut others = handlers.iter().filter(|other| {
            let is_shared = (may_share || other.may_share) && other.names.first() == names.first();
            other.store == store && other.handler != handler && !is_shared
        });
        let shared = others.find_map(|other| Some((other, self.shared_name(&other.names)?)));
        if let Some((other, name)) = shared {
            let handlers = format!("`{}` and `{}`", other.handler.name, handler.name);
            return Err(shared_name_error(
                &name,
                "handlers of this process",
                &handlers,
            ));
        }
        let set_up = SetUp {
            store,
            names,
            may_share,
            handler,
        };
        // A process may set a handler up for each of its invocations.
        if !handlers.contains(&set_up) {
            handlers.push(set_up);
        }
        Ok(())
    }
}

/// Returns the error for two handlers of a kind that share a name.
pub(crate) fn shared_name_error(name: &str, kind: &str, handlers: &str) -> ConfigError {
    ConfigError::conflicting(
        "the setting `namespace`",
        format!(
            "is {name:?} for two {kind}, {handlers}, as `namespace` or in `ids`: their messages would \
             be duplicates of each other, or have the same tokens"
        ),
        "a namespace for each, in the code, which no other handler reads: SQS_ONCE_NAMESPACE overrides those of attributes",
    )
}
