//! A PgBouncer between a test and its server.

use crate::error::{file, or_panic};
use crate::guardian::{Guardian, PAUSE, START_LIMIT, not_ready};
use crate::install::Installation;
use crate::port::Port;
use crate::server::Server;
use crate::unprivileged::Unprivileged;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::Instant;

/// The variable with the path of the program. `.ci/pgbouncer.py` downloads it; this crate does not.
const PROGRAM: &str = "PGBOUNCER";

/// A PgBouncer with transaction pooling in front of a [`Server`]. Dropping it ends it.
pub struct PgBouncer {
    port: Port,
    _guardian: Guardian,
}

impl PgBouncer {
    /// Starts the program in the variable `PGBOUNCER`, and waits until it accepts connections. `connections` is the
    /// number of connections to the server, `prepared` the `max_prepared_statements`.
    ///
    /// # Panics
    /// If the variable is not set, or the program does not start.
    #[must_use]
    #[track_caller]
    pub fn before(server: &Server, connections: u32, prepared: u32) -> Self {
        or_panic(Self::try_before(server, connections, prepared))
    }

    /// The URL of the same database through this PgBouncer.
    #[must_use]
    pub fn url(&self, url: &str) -> String {
        let (user, place) = url.split_once('@').unwrap_or(("postgresql://", url));
        let database = place.split_once('/').map_or("", |(_, database)| database);
        format!("{user}@127.0.0.1:{}/{database}", self.port.number)
    }

    fn try_before(server: &Server, connections: u32, prepared: u32) -> Result<Self> {
        let program = std::env::var_os(PROGRAM);
        let program = program.with_context(|| {
            format!("the variable {PROGRAM} does not name PgBouncer's program: `python3 .ci/pgbouncer.py` fetches one")
        })?;
        let program = Path::new(&program);
        let port = Port::take(&Installation::ready()?.ports())?;
        let folder = tempfile::tempdir().with_context(file(std::env::temp_dir()))?;
        let user = Unprivileged::find(folder.path(), program)?;
        let settings = [
            "[databases]".to_owned(),
            format!("* = {}", server.for_pgbouncer()),
            "[pgbouncer]".to_owned(),
            "listen_addr = 127.0.0.1".to_owned(),
            format!("listen_port = {}", port.number),
            "unix_socket_dir =".to_owned(),
            "auth_type = any".to_owned(),
            "pool_mode = transaction".to_owned(),
            "max_client_conn = 1000".to_owned(),
            format!("default_pool_size = {connections}"),
            format!("max_prepared_statements = {prepared}"),
        ];
        let path = folder.path().join("pgbouncer.ini");
        fs::write(&path, settings.join("\n")).with_context(file(&path))?;
        user.own(folder.path())?;

        let mut command = user.command(program);
        command.arg(&path);
        let folder = folder.keep();
        let log = folder.join("log");
        let mut guardian = Guardian::new(folder, &command)?;
        guardian.spawn()?;
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port.number)).is_err() {
            ensure!(started.elapsed() <= START_LIMIT, not_ready(&log));
            thread::sleep(PAUSE);
        }
        Ok(Self {
            port,
            _guardian: guardian,
        })
    }
}
