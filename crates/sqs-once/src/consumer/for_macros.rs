//! The functions that macro output calls, as `sqs_once::__private`. Any release may change them.

use std::sync::Arc;

use crate::config::no_default_namespace;
use crate::error::ConfigError;
use crate::handler::{BatchHandler, Bound, Handler, WholeBatch};
use crate::key::{Fingerprint, KeyError, KeyExtractor, KeyPart, Namespace};

use super::builder::{Consumer, Keyed, Ready, ready};

/// Sets the location of the `#[handler]`. It provides the default namespace.
#[must_use]
pub fn declared<Phase>(
    consumer: Consumer<Phase>,
    package: &str,
    binary: Option<&str>,
    module: &str,
    path: &str,
    name: &str,
) -> Consumer<Phase> {
    let declared = Declared {
        package,
        binary,
        module,
        path,
        name,
    };
    consumer.set(|settings| {
        settings.idempotency.default_namespace = Some(declared.namespace());
        #[cfg(feature = "testing")]
        {
            settings.unique_namespace = declared.unique_namespace().ok();
        }
    })
}

/// Returns the fingerprint of the part that an attribute's `expression` takes from a payload.
///
/// # Errors
/// The error of [`Fingerprint::new`].
pub fn fingerprint<P: KeyPart + ?Sized>(
    expression: &str,
    part: &P,
) -> Result<Fingerprint, KeyError> {
    Fingerprint::declared(expression, part)
}

/// Sets the fingerprint to a part that may borrow from its payload.
#[must_use]
pub fn fingerprint_with<T, K, F>(consumer: Consumer<Keyed<T, K>>, take: F) -> Consumer<Keyed<T, K>>
where
    T: Send + 'static,
    K: KeyExtractor<T>,
    F: Fn(&T) -> Result<Fingerprint, KeyError> + Send + Sync + 'static,
{
    consumer.fingerprint_with(take)
}

/// Sets a handler whose state comes later.
pub fn handler_with_state<S, H, X, T, K>(
    consumer: Consumer<Keyed<T, K>>,
    handler: H,
) -> Consumer<Ready<S>>
where
    S: 'static,
    H: Handler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| {
        let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
        ready(Arc::new(bound))
    })
}

/// Sets a batch handler whose state comes later.
pub fn batch_handler_with_state<S, H, X, T, K>(
    consumer: Consumer<Keyed<T, K>>,
    handler: H,
) -> Consumer<Ready<S>>
where
    S: 'static,
    H: BatchHandler<T, S, X>,
    X: 'static,
    T: Send + 'static,
    K: KeyExtractor<T>,
{
    consumer.into_phase(|keyed| {
        let bound = Bound::<T, K, H, X>::new(keyed.reader, handler);
        ready(Arc::new(WholeBatch(bound)))
    })
}

/// A handler's location in its package, as the compiler names it.
#[derive(Clone, Copy)]
struct Declared<'a> {
    /// `CARGO_PKG_NAME`.
    package: &'a str,
    /// `CARGO_BIN_NAME`; `None` in a library.
    binary: Option<&'a str>,
    /// `module_path!()`, which does not contain an enclosing function.
    module: &'a str,
    /// `type_name` of the type beside the handler. It contains an enclosing function, although nothing guarantees that.
    path: &'a str,
    name: &'a str,
}

impl Declared<'_> {
    /// Returns package and function name, for a function in the root of the binary that is named after its package. Two
    /// such functions can't have the same name.
    ///
    /// Other handlers have no default. A name with module and binary would also be unique, but it would change when a
    /// function moves, and the consumer would forget every key. It would also differ from the default of earlier versions,
    /// under which a table may hold keys.
    fn namespace(self) -> Result<Namespace, ConfigError> {
        let short = [self.package, ".", self.name].concat();
        let is_at_the_root = !self.module.contains("::") && self.scope().is_none();
        if is_at_the_root && self.binary == Some(self.package) {
            return self.valid(&short);
        }
        Err(no_default_namespace(self.path, &self.unique(), &short))
    }

    /// Returns a name that no other handler of the package gets.
    #[cfg(feature = "testing")]
    fn unique_namespace(self) -> Result<Namespace, ConfigError> {
        self.valid(&self.unique())
    }

    fn valid(self, name: &str) -> Result<Namespace, ConfigError> {
        Namespace::new(name).map_err(|_| no_default_namespace(self.path, "a short name", name))
    }

    fn unique(self) -> String {
        let (package, name) = (self.package, self.name);
        let mut modules = self.module.split("::");
        let root = modules.next().unwrap_or_default();
        let owner = match self.binary {
            Some(binary) if binary == package => package.to_owned(),
            Some(binary) => [package, "/", binary].concat(),
            None if root == package.replace('-', "_") => [package, "/lib"].concat(),
            // Not a binary, for example a test.
            None => [package, "/", root].concat(),
        };
        let scope = self.scope().into_iter().flat_map(|scope| scope.split("::"));
        let scope = scope.filter(|part| !part.starts_with('{'));
        let path = modules.chain(scope).chain([name]).collect::<Vec<_>>();
        [&*owner, ".", &path.join(".")].concat()
    }

    fn scope(&self) -> Option<&str> {
        let inside = self.path.strip_prefix(self.module)?.strip_prefix("::")?;
        Some(inside.rsplit_once("::")?.0)
    }
}
