//! Reading environment variables.

use std::sync::Once;

use tracing::warn;

use crate::error::ConfigError;
use crate::variables::{is_unknown, nearest};

pub(crate) type Env<'a> = dyn Fn(&str) -> Option<String> + Sync + 'a;

/// Looks up a variable in the process's environment. An empty variable counts as unset, as it does for the AWS SDK.
pub(crate) fn process_env(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

/// Reads and parses a variable. Returns `None` if it is not set.
pub(crate) fn read<T>(
    env: &Env<'_>,
    variable: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ConfigError> {
    let Some(text) = env(variable) else {
        return Ok(None);
    };
    match parse(text.trim()) {
        Some(value) => Ok(Some(value)),
        None => Err(ConfigError::invalid(
            variable,
            format!("is {text:?}"),
            expected,
        )),
    }
}

/// Returns the process's variables with the library's prefix and without a meaning.
fn unknown() -> impl Iterator<Item = String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    names.filter(|name| is_unknown(name))
}

/// Warns once about each variable that is probably misspelt.
pub(crate) fn warn_of_unknown() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for variable in unknown() {
            warn!(
                meant = nearest(&variable),
                variable, "the environment has a variable that sqs-once does not know"
            );
        }
    });
}

/// Returns the problem of a required variable that is not set, with the misspelling that is.
pub(crate) fn not_set(variable: &str) -> String {
    match unknown().find(|unknown| nearest(unknown).as_deref() == Some(variable)) {
        Some(misspelt) => format!("is not set, but the unknown {misspelt} is"),
        None => "is not set".to_owned(),
    }
}
