//! A running PostgreSQL server.

use crate::error::{file, or_panic};
use crate::guardian::Guardian;
use crate::install::Installation;
use crate::is_missing;
use crate::port::Port;
use crate::run::run;
use crate::tls::Tls;
use crate::unprivileged::Unprivileged;
use anyhow::{Context, Result};
use std::fs;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use tokio_postgres::NoTls;

/// A PostgreSQL for this test process, on a port of 127.0.0.1. Dropping it ends the server and deletes its data.
///
/// It has PostgreSQL's default settings, including `fsync`. A killed process loses no data that it had written, so
/// every commit would survive without `fsync` too. But a commit would be faster than in production, and a kill would
/// rarely fall between its write and its answer. Tests with thousands of commits that kill no server use
/// [`start_without_fsync`](Self::start_without_fsync). (`synchronous_commit` is different: with it off, a commit that
/// was answered early is only in the server's memory.)
pub struct Server {
    guardian: Mutex<Guardian>,
    port: Port,
    password: String,
    tls: Option<Tls>,
    databases: AtomicU32,
}

impl Server {
    /// Starts a server and waits until it accepts connections, which takes about a tenth of a second. The first call on
    /// a machine downloads PostgreSQL if none is installed.
    ///
    /// If PostgreSQL [is missing](crate::is_missing), this ends the process with success, whatever its other tests have
    /// found. So every test of the program must start a server, too, or the test must ask `is_missing` first.
    ///
    /// # Panics
    /// If PostgreSQL is not available although it is required, or does not start. The message names the reason.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        or_panic(Self::try_start(|_| Ok(None), &[]))
    }

    /// Starts a server without `fsync`: commits do not wait for the disk.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_without_fsync() -> Self {
        or_panic(Self::try_start(|_| Ok(None), &["fsync=off"]))
    }

    /// Starts a server that accepts connections to its databases only with TLS. Its certificate is for the address
    /// 127.0.0.1 and no name, from an [authority](Self::authority) of its own.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    #[track_caller]
    pub fn start_with_tls() -> Self {
        or_panic(Self::try_start(|cluster| Tls::make(cluster).map(Some), &[]))
    }

    fn try_start(
        tls: impl FnOnce(&Path) -> Result<Option<Tls>>,
        more_settings: &[&str],
    ) -> Result<Self> {
        if is_missing() {
            std::process::exit(0);
        }
        let installation = Installation::ready()?;
        let port = Port::take(&installation.ports())?;
        let clusters = installation.clusters();
        fs::create_dir_all(&clusters).with_context(file(&clusters))?;
        let cluster = tempfile::tempdir_in(&clusters).with_context(file(clusters))?;
        let data = cluster.path().join("data");
        run(Command::new("cp")
            .arg("-R")
            .arg(installation.template())
            .arg(&data))?;
        let tls = tls(cluster.path())?;

        let postgres = installation.postgres();
        let user = Unprivileged::find(cluster.path(), &postgres)?;
        user.own(cluster.path())?;
        let mut command = user.command(&postgres);
        command.arg("-D").arg(data);
        for setting in settings(&port, tls.as_ref()) {
            command.args(["-c", &setting]);
        }
        for setting in more_settings {
            command.args(["-c", setting]);
        }
        let mut guardian = Guardian::new(cluster.keep(), &command)?;
        guardian.start()?;
        Ok(Self {
            guardian: Mutex::new(guardian),
            port,
            password: installation.password()?,
            tls,
            databases: AtomicU32::new(0),
        })
    }

    /// The URL with which a superuser connects to the database `postgres`. It has a password and no parameters.
    #[must_use]
    pub fn connection_string(&self) -> String {
        self.url("postgres")
    }

    /// Creates a new, empty database and returns its URL. Tests that share a server should take one each.
    ///
    /// # Panics
    /// If the server is dead.
    #[must_use]
    #[track_caller]
    pub fn create_database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        or_panic(self.administer(format!("CREATE DATABASE {name} TEMPLATE template0")));
        self.url(&name)
    }

    /// The certificate (PEM) of the authority that a client must trust, if the server uses TLS.
    #[must_use]
    pub fn authority(&self) -> Option<&Path> {
        self.tls.as_ref().map(|tls| tls.authority.as_path())
    }

    /// Kills the server and all its processes (SIGKILL), and returns when they have ended.
    pub fn kill(&self) {
        self.guardian().kill();
    }

    /// Starts the server again with the same data on the same port. Kills it first if it runs. Returns when it has
    /// recovered and accepts connections.
    ///
    /// # Panics
    /// If it does not start. The message contains its log.
    #[track_caller]
    pub fn restart(&self) {
        let mut guardian = self.guardian();
        guardian.kill();
        or_panic(guardian.start());
    }

    fn guardian(&self) -> MutexGuard<'_, Guardian> {
        self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection parameters for PgBouncer.
    pub(crate) fn for_pgbouncer(&self) -> String {
        let Self { password, port, .. } = self;
        format!(
            "host=127.0.0.1 port={} user=postgres password={password}",
            port.number
        )
    }

    fn url(&self, database: &str) -> String {
        let Self { password, port, .. } = self;
        format!(
            "postgresql://postgres:{password}@127.0.0.1:{}/{database}",
            port.number
        )
    }

    /// Runs a statement in a thread of its own, because the test's thread may be inside an asynchronous runtime.
    fn administer(&self, statement: String) -> Result<()> {
        let url = self.url("template1");
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("a connection needs a runtime")?;
            let done = runtime.block_on(async {
                let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
                let statement = &statement;
                // The connection ends when the client is dropped, and the client returns its errors.
                let work = async move { client.batch_execute(statement).await };
                tokio::join!(work, connection).0
            });
            done.with_context(|| format!("the server refuses `{statement}`"))
        });
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// The settings that differ from the defaults.
fn settings(port: &Port, tls: Option<&Tls>) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={}", port.number),
        // A socket's path is limited to 100 characters, which paths under `target` often exceed.
        "unix_socket_directories=".to_owned(),
        // In the data directory, so a killed server leaves nothing elsewhere.
        "dynamic_shared_memory_type=mmap".to_owned(),
    ];
    if cfg!(target_os = "linux") {
        // When the server starts after a crash, it makes one call instead of one for each of thousands of files.
        settings.push("recovery_init_sync_method=syncfs".to_owned());
    }
    if let Some(tls) = tls {
        settings.extend([
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", tls.certificate.display()),
            format!("ssl_key_file={}", tls.key.display()),
            format!("hba_file={}", tls.hba.display()),
        ]);
    }
    settings
}
