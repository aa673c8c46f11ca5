//! Reads and validates the connection settings from a connection string or the environment.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use sqs_once::ConfigError;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::iam::Tokens;

const URL: &str = "DATABASE_URL";
const ROOT_CERT: &str = "PGSSLROOTCERT";
const CONCURRENCY: &str = "SQS_ONCE_CONCURRENCY";

const EXPECTED_URL: &str = "`postgresql://USER:PASSWORD@HOST/DATABASE` (with `%40` for an `@` in the password, and so on), \
     `postgresql://USER@HOST/DATABASE?auth=iam`, or `host=… user=… password=… dbname=…`";

/// Matches the consumer's default concurrency, since each handler may hold a transaction.
pub(crate) const DEFAULT_CONNECTIONS: usize = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Reads an environment variable.
pub(crate) type Env<'a> = dyn Fn(&str) -> Option<String> + 'a;

/// Reads the process environment. An empty variable counts as unset.
pub(crate) fn process_env(name: &str) -> Option<String> {
    let value = std::env::var_os(name)?.to_string_lossy().into_owned();
    (!value.is_empty()).then_some(value)
}

/// Connection settings.
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// A PEM file of certificates to trust instead of the system's.
    pub(crate) root_cert: Option<PathBuf>,
    pub(crate) connections: usize,
    /// The source of tokens for IAM database authentication.
    pub(crate) tokens: Option<Tokens>,
}

impl Settings {
    pub(crate) fn from_env(env: &Env<'_>) -> Result<Self, ConfigError> {
        let url = env(URL).ok_or_else(|| ConfigError::missing(URL, "is not set", EXPECTED_URL))?;
        let connections = match env(CONCURRENCY) {
            None => DEFAULT_CONNECTIONS,
            Some(text) => text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
                let problem = format!("is {text:?}");
                ConfigError::invalid(CONCURRENCY, problem, "a whole number from 1")
            })?,
        };
        let root_cert = env(ROOT_CERT).map(PathBuf::from);
        let settings = Self::from_string(URL, url.trim(), root_cert, env)?;
        Ok(Self {
            connections,
            ..settings
        })
    }

    /// Parses the connection string in `setting`. Its `sslrootcert` takes precedence over `root_cert`.
    pub(crate) fn from_string(
        setting: &'static str,
        text: &str,
        root_cert: Option<PathBuf>,
        env: &Env<'_>,
    ) -> Result<Self, ConfigError> {
        let own = Own::out_of(text);
        let root_cert = own.root_cert.or(root_cert);
        // The parser's error may quote part of the string, which could be the password.
        let malformed = |problem: &str| ConfigError::invalid(setting, problem, EXPECTED_URL);
        let parsed = |text: &str| -> Result<Config, _> {
            let config = text.parse();
            config.map_err(|_| malformed("is not a PostgreSQL connection string"))
        };
        let mut config = parsed(&own.rest)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(malformed("names no host"));
        }
        if config.get_user().is_none() {
            return Err(malformed("names no user"));
        }
        if root_cert.is_some() || !is_local(&config) {
            config = parsed(&preferring(&own.rest, "sslmode=require"))?;
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("sqs-once");
        }
        let tokens = match own.auth {
            None => None,
            Some("iam") => Some(Tokens::new(setting, &config, env)?),
            Some(_) => return Err(malformed("has an `auth` that is not `iam`")),
        };
        Ok(Self {
            config,
            root_cert,
            connections: DEFAULT_CONNECTIONS,
            tokens,
        })
    }
}

/// Splits a URL into the part before its parameters and the parameters. `None` for `key=value` pairs.
fn parts(text: &str) -> Option<(&str, &str)> {
    let is_url = text.starts_with("postgresql://") || text.starts_with("postgres://");
    // A password may contain a question mark.
    let host = text.find('@').unwrap_or_default();
    let address = host + text[host..].find('?').unwrap_or(text.len() - host);
    let parameters = text.get(address + 1..).unwrap_or_default();
    is_url.then(|| (&text[..address], parameters))
}

/// Adds a parameter to the connection string. An existing parameter of the same name takes precedence.
fn preferring(text: &str, parameter: &str) -> String {
    match parts(text) {
        Some((address, parameters)) => format!("{address}?{parameter}&{parameters}"),
        None => format!("{parameter} {text}"),
    }
}

/// Returns whether all connections stay on this machine.
fn is_local(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    if !addresses.is_empty() {
        return addresses.iter().all(|address| address.is_loopback());
    }
    config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            let address: Option<IpAddr> = name.parse().ok();
            name == "localhost" || address.is_some_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

/// The URL parameters that the driver does not know.
struct Own<'a> {
    root_cert: Option<PathBuf>,
    auth: Option<&'a str>,
    /// The URL without these parameters.
    rest: String,
}

impl<'a> Own<'a> {
    /// Removes from a URL the parameters that libpq knows and the driver does not, and this crate's `auth`. The
    /// verifying modes of `sslmode` become `require`, which verifies too in this crate.
    fn out_of(text: &'a str) -> Self {
        let mut own = Self {
            root_cert: None,
            auth: None,
            rest: text.to_owned(),
        };
        let Some((address, parameters)) = parts(text) else {
            return own;
        };
        let mut kept = Vec::new();
        for parameter in parameters.split('&') {
            match parameter.split_once('=') {
                Some(("sslrootcert", path)) => {
                    let path = percent_decode_str(path).decode_utf8_lossy();
                    own.root_cert = Some(PathBuf::from(path.into_owned()));
                }
                Some(("auth", value)) => own.auth = Some(value),
                Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
                _ => kept.push(parameter),
            }
        }
        own.rest = format!("{address}?{}", kept.join("&"));
        own
    }
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
        from(variables).err().expect("it is refused")
    }

    #[test]
    fn what_is_missing_or_malformed_is_named_with_the_form_it_should_have() {
        let error = refused([]);
        assert_eq!(error.setting(), "DATABASE_URL");
        assert!(error.to_string().contains("expected `postgresql://USER:"));

        for url in [
            "postgresql://orders@",
            "postgresql:///db",
            "host=db",
            "db",
            "postgresql://u@db/x?sslmode=allow",
            "postgresql://u@db/x?pool=7",
            "postgresql://u@db/x?auth=password",
        ] {
            let error = refused([("DATABASE_URL", url)]);
            assert_eq!(error.setting(), "DATABASE_URL", "{url}");
        }
        let url = ("DATABASE_URL", "host=db user=u");
        let error = refused([url, ("SQS_ONCE_CONCURRENCY", "0")]);
        assert_eq!(error.setting(), "SQS_ONCE_CONCURRENCY");
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
        assert_eq!(settings.config.get_ssl_mode(), SslMode::Require);
        let settings = from([("DATABASE_URL", url), variable]).unwrap();
        assert_eq!(settings.root_cert, Some("/var/task/rds.pem".into()));
    }

    #[test]
    fn other_machines_are_asked_for_tls_and_this_one_where_a_root_certificate_is_named() {
        use SslMode::{Disable, Prefer, Require};
        for (url, expected) in [
            ("postgresql://u:p@db/x", Require),
            ("postgresql://u:p?@db", Require),
            ("postgresql://u:p@db/x?", Require),
            ("postgresql://u:p@db/x?connect_timeout=3", Require),
            ("postgresql://u@127.0.0.1,db/x", Require),
            ("postgresql://u@localhost.example/x", Require),
            ("postgresql://u@/x?host=db", Require),
            ("host=db user=u", Require),
            ("host=127.0.0.1 hostaddr=10.0.0.7 user=u", Require),
            ("host=db user=u password='sslmode=disable'", Require),
            // An explicit `sslmode` takes precedence.
            ("postgresql://u:p@db/x?sslmode=disable", Disable),
            ("postgresql://u@db?connect_timeout=3&sslmode=prefer", Prefer),
            ("host=db sslmode=disable user=u", Disable),
            // This machine.
            ("postgresql://u@127.0.0.1/x", Prefer),
            ("postgresql://u@127.8.7.6:5433/x", Prefer),
            ("postgresql://u@[::1]/x", Prefer),
            ("postgresql://u@localhost/x", Prefer),
            ("host=/var/run/postgresql user=u", Prefer),
            ("host=db hostaddr=127.0.0.1 user=u", Prefer),
            ("postgresql://u@127.0.0.1/x?sslrootcert=ca", Require),
            (
                "postgresql://u@[::1]/x?sslrootcert=ca&sslmode=prefer",
                Prefer,
            ),
        ] {
            let settings = from([("DATABASE_URL", url)]).unwrap();
            assert_eq!(settings.config.get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn a_password_with_a_question_mark_stays_whole() {
        for url in [
            "postgresql://u:a?b@db/x",
            "postgresql://u:a?b@db/x?sslmode=require",
        ] {
            let settings = from([("DATABASE_URL", url)]).unwrap();
            assert_eq!(settings.config.get_password(), Some(&b"a?b"[..]), "{url}");
        }
    }

    #[test]
    fn no_connection_waits_for_ever_and_each_says_whose_it_is() {
        let settings = from([("DATABASE_URL", "host=db user=u")]).unwrap();
        let timeout = settings.config.get_connect_timeout();
        assert_eq!(timeout, Some(&CONNECT_TIMEOUT));
        assert_eq!(settings.config.get_application_name(), Some("sqs-once"));
        let url = "host=db user=u connect_timeout=9 application_name=billing";
        let settings = from([("DATABASE_URL", url)]).unwrap();
        let timeout = Duration::from_secs(9);
        assert_eq!(settings.config.get_connect_timeout(), Some(&timeout));
        assert_eq!(settings.config.get_application_name(), Some("billing"));
    }
}
