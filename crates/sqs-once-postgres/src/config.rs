//! Where the database is, from a connection string or the environment: checked at the start.

use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use thiserror::Error;
use tokio_postgres::Config;

const URL: &str = "SQS_ONCE_POSTGRES_URL";
const USUAL_URL: &str = "DATABASE_URL";
const ROOT_CERT: &str = "PGSSLROOTCERT";
const CONCURRENCY: &str = "SQS_ONCE_CONCURRENCY";

const EXPECTED_URL: &str = "`postgresql://USER:PASSWORD@HOST/DATABASE?sslmode=require` (with `%40` for an `@` in the \
     password, and so on), or `host=… user=… password=… dbname=…`";

/// A consumer runs as many handlers at once, and each may have a transaction open.
pub(crate) const DEFAULT_CONNECTIONS: usize = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A setting is missing or malformed. The function refuses to start.
///
/// It names the setting and the expected form, and shows no part of a connection string: there may be a
/// password in it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{setting} {problem}: expected {expected}")]
pub struct ConfigError {
    setting: String,
    problem: String,
    expected: &'static str,
}

impl ConfigError {
    pub(crate) fn new(
        setting: impl Into<String>,
        problem: impl Into<String>,
        expected: &'static str,
    ) -> Self {
        Self {
            setting: setting.into(),
            problem: problem.into(),
            expected,
        }
    }

    /// The variable or argument at fault.
    pub fn setting(&self) -> &str {
        &self.setting
    }
}

/// Looks an environment variable up.
type Env<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// The process's own environment. An empty variable counts as unset.
pub(crate) fn process_env(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

/// What it takes to connect.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The certificates to trust in place of the system's, as PEM.
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) connections: usize,
}

impl Settings {
    pub(crate) fn from_env(env: &Env<'_>) -> Result<Self, ConfigError> {
        let (setting, url) = [URL, USUAL_URL]
            .into_iter()
            .find_map(|variable| Some((variable, env(variable)?)))
            .ok_or_else(|| {
                let problem = format!("is not set, and neither is {USUAL_URL}");
                ConfigError::new(URL, problem, EXPECTED_URL)
            })?;
        let connections = match env(CONCURRENCY) {
            None => DEFAULT_CONNECTIONS,
            Some(text) => text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                let problem = format!("is {text:?}");
                ConfigError::new(CONCURRENCY, problem, "a whole number from 1")
            })?,
        };
        let settings = Self::from_string(setting, url.trim())?;
        Ok(Self {
            root_cert: settings
                .root_cert
                .or_else(|| env(ROOT_CERT).map(PathBuf::from)),
            connections,
            ..settings
        })
    }

    /// Reads a connection string that stood in `setting`.
    pub(crate) fn from_string(setting: &str, text: &str) -> Result<Self, ConfigError> {
        let (text, root_cert) = without_root_cert(text);
        // The parser's own error may quote what it did not understand, and that may be the password.
        let malformed = |problem: &str| ConfigError::new(setting, problem, EXPECTED_URL);
        let mut config: Config = text
            .parse()
            .map_err(|_| malformed("is no connection string of PostgreSQL"))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(malformed("names no host"));
        }
        if config.get_user().is_none() {
            return Err(malformed("names no user"));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("sqs-once");
        }
        Ok(Self {
            config,
            root_cert,
            connections: DEFAULT_CONNECTIONS,
        })
    }
}

/// Takes out of a URL what libpq knows and the driver does not: `sslrootcert`, and the modes of `sslmode`
/// that verify, which here is what `require` does.
fn without_root_cert(text: &str) -> (String, Option<PathBuf>) {
    let mut root_cert = None;
    let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
    let Some((address, parameters)) = text.split_once('?').filter(|_| is_url) else {
        return (text.to_owned(), None);
    };
    let mut kept = Vec::new();
    for parameter in parameters.split('&') {
        match parameter.split_once('=') {
            Some(("sslrootcert", path)) => {
                let path = percent_decode_str(path).decode_utf8_lossy();
                root_cert = Some(PathBuf::from(path.into_owned()));
            }
            Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(parameter),
        }
    }
    (format!("{address}?{}", kept.join("&")), root_cert)
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::SslMode;

    use super::*;

    fn from<const N: usize>(variables: [(&str, &str); N]) -> Result<Settings, ConfigError> {
        Settings::from_env(&|name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn refused<const N: usize>(variables: [(&str, &str); N]) -> ConfigError {
        match from(variables) {
            Ok(_) => panic!("it was accepted"),
            Err(error) => error,
        }
    }

    #[test]
    fn the_own_variable_wins_over_the_usual_one() {
        let settings = from([
            ("SQS_ONCE_POSTGRES_URL", "postgresql://orders@own/db"),
            ("DATABASE_URL", "postgresql://orders@usual/db"),
        ])
        .unwrap();
        assert!(format!("{:?}", settings.config.get_hosts()).contains("own"));
        let settings = from([("DATABASE_URL", "host=usual user=orders")]).unwrap();
        assert!(format!("{:?}", settings.config.get_hosts()).contains("usual"));
    }

    #[test]
    fn what_is_missing_or_malformed_is_named_with_the_form_it_should_have() {
        let error = refused([]);
        assert_eq!(error.setting(), "SQS_ONCE_POSTGRES_URL");
        assert!(error.to_string().contains("expected `postgresql://USER:"));

        for url in [
            "postgresql://orders@",
            "postgresql:///db",
            "host=db",
            "db",
            "postgresql://u@db/x?sslmode=allow",
            "postgresql://u@db/x?pool=7",
        ] {
            let error = refused([("DATABASE_URL", url)]);
            assert_eq!(error.setting(), "DATABASE_URL", "{url}");
        }
        let concurrency = [
            ("DATABASE_URL", "host=db user=u"),
            ("SQS_ONCE_CONCURRENCY", "0"),
        ];
        assert_eq!(refused(concurrency).setting(), "SQS_ONCE_CONCURRENCY");
    }

    #[test]
    fn no_error_shows_a_password() {
        for url in [
            "postgresql://orders:secret@db:port/x",
            "postgresql://orders:sec@ret@db/x?secret=1",
            "host=db user=orders password=top secret",
            "password=secret",
        ] {
            let error = refused([("DATABASE_URL", url)]);
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
            assert!(!format!("{error} {error:?}").contains("ret@"), "{error}");
        }
    }

    #[test]
    fn the_certificate_and_the_modes_of_libpq_are_understood() {
        let url = "postgresql://u@db/x?sslrootcert=%2Fvar%2Ftask%2Frds.pem&sslmode=verify-full";
        let settings = from([("DATABASE_URL", url)]).unwrap();
        assert_eq!(settings.root_cert, Some("/var/task/rds.pem".into()));
        assert_eq!(settings.config.get_ssl_mode(), SslMode::Require);

        let variable = ("PGSSLROOTCERT", "other.pem");
        let settings = from([("DATABASE_URL", "host=db user=u"), variable]).unwrap();
        assert_eq!(settings.root_cert, Some("other.pem".into()));
        assert_eq!(settings.config.get_ssl_mode(), SslMode::Prefer);
        let settings = from([("DATABASE_URL", url), variable]).unwrap();
        assert_eq!(settings.root_cert, Some("/var/task/rds.pem".into()));
    }

    #[test]
    fn no_connection_waits_for_ever_and_each_says_whose_it_is() {
        let settings = from([("DATABASE_URL", "host=db user=u")]).unwrap();
        assert_eq!(
            settings.config.get_connect_timeout(),
            Some(&CONNECT_TIMEOUT)
        );
        assert_eq!(settings.config.get_application_name(), Some("sqs-once"));
        let url = "host=db user=u connect_timeout=9 application_name=billing";
        let settings = from([("DATABASE_URL", url)]).unwrap();
        let timeout = Duration::from_secs(9);
        assert_eq!(settings.config.get_connect_timeout(), Some(&timeout));
        assert_eq!(settings.config.get_application_name(), Some("billing"));
    }
}
