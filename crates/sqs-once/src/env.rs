//! Reading environment variables.

use std::time::Duration;

use crate::error::ConfigError;

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
        None => Err(ConfigError::new(variable, format!("is {text:?}"), expected)),
    }
}

pub(crate) fn first<T>(
    env: &Env<'_>,
    variables: [&'static str; 2],
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ConfigError> {
    let [ours, other] = variables;
    match read(env, ours, expected, &parse)? {
        Some(value) => Ok(Some(value)),
        None => read(env, other, expected, parse),
    }
}

/// Parses a whole number with a unit: `ms`, `s`, `m`, `h` or `d`.
pub(crate) fn duration_from(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit_at);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        "d" => 24 * 60 * 60 * 1000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}
