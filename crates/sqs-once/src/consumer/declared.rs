//! The place of a `#[handler]`, and its default namespace.

use crate::config::no_default_namespace;
use crate::error::ConfigError;
use crate::key::Namespace;

/// A handler's place in its package, as the compiler names it.
#[derive(Clone, Copy)]
pub(super) struct Declared<'a> {
    /// `CARGO_PKG_NAME`.
    pub(super) package: &'a str,
    /// `CARGO_BIN_NAME`: none in a library.
    pub(super) binary: Option<&'a str>,
    /// `module_path!()`, which does not name a function around the handler.
    pub(super) module: &'a str,
    /// `type_name` of the type beside the handler, which does, though no version of the compiler promises it.
    pub(super) path: &'a str,
    pub(super) name: &'a str,
}

impl Declared<'_> {
    /// Package and function, for a function in the root of the binary that is named after its package. Two of them
    /// can't have one name.
    ///
    /// Other handlers have no default. A name with module and binary would also be unique, but it would change when a
    /// function moves, and the consumer would forget every key. It would also differ from the default of earlier versions,
    /// under which a table may hold keys.
    pub(super) fn namespace(self) -> Result<Namespace, ConfigError> {
        let short = [self.package, ".", self.name].concat();
        let is_at_the_root = !self.module.contains("::") && self.scope().is_none();
        if is_at_the_root && self.binary == Some(self.package) {
            return self.valid(&short);
        }
        Err(no_default_namespace(self.path, &self.unique(), &short))
    }

    /// A name that no other handler of the package is given.
    #[cfg(feature = "testing")]
    pub(super) fn unique_namespace(self) -> Result<Namespace, ConfigError> {
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
            // Of a test, for instance.
            None => [package, "/", root].concat(),
        };
        let scope = self.scope().into_iter().flat_map(|scope| scope.split("::"));
        let scope = scope.filter(|part| !part.starts_with('{'));
        let path = modules.chain(scope).chain([name]).collect::<Vec<_>>();
        [&*owner, ".", &path.join(".")].concat()
    }

    /// The functions around the handler.
    fn scope(&self) -> Option<&str> {
        let inside = self.path.strip_prefix(self.module)?.strip_prefix("::")?;
        Some(inside.rsplit_once("::")?.0)
    }
}
