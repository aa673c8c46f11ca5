//! The process between the test and its server, which runs `guardian.sh`.

use crate::processes;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use sysinfo::Pid;

/// How long a server may take to start, including recovery, on a busy machine.
pub(crate) const START_LIMIT: Duration = Duration::from_secs(60);

/// The interval between checks whether a server is ready.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);

/// Why a server with this log is not ready in time.
pub(crate) fn not_ready(path: &Path) -> String {
    let (seconds, log) = (START_LIMIT.as_secs(), log(path));
    format!("no connections are accepted after {seconds} s; its log:\n{log}")
}

fn log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

/// Owns the server's processes and its data. Dropping it ends both.
pub(crate) struct Guardian {
    cluster: PathBuf,
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: Option<Pid>,
}

impl Guardian {
    /// Starts the guardian of a directory and of the servers that `command` will start.
    pub(crate) fn new(cluster: PathBuf, command: &Command) -> Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("guardian.sh"), "guardian"])
            .arg(&cluster)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A signal to the test's process group must not stop the guardian before it has cleaned up.
            .process_group(0)
            .spawn()
            .context("sh can't be run")?;
        let (orders, answers) = (shell.stdin.take(), shell.stdout.take());
        Ok(Self {
            cluster,
            shell,
            orders,
            answers: BufReader::new(answers.expect("standard output is piped")),
            server: None,
        })
    }

    /// Starts a server if none is running, and waits until it accepts connections.
    pub(crate) fn start(&mut self) -> Result<()> {
        let server = self.spawn()?;
        self.server = Some(server);
        self.wait_until_ready(server)
    }

    /// Starts the command.
    pub(crate) fn spawn(&mut self) -> Result<Pid> {
        let mut answer = String::new();
        self.orders
            .as_mut()
            .expect("standard input is open until the drop")
            .write_all(b"start\n")
            .and_then(|()| self.answers.read_line(&mut answer))
            .context("the server's guardian can't be run")?;
        answer.trim().parse().with_context(|| self.ended())
    }

    /// Kills the server and all its processes at once, like a machine failure.
    pub(crate) fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            processes::kill_with_children(server);
        }
    }

    fn wait_until_ready(&self, server: Pid) -> Result<()> {
        let started = Instant::now();
        while !self.is_ready(server) {
            if !processes::runs(server) {
                bail!(self.ended());
            }
            if started.elapsed() > START_LIMIT {
                bail!(not_ready(&self.cluster.join("log")));
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// `pg_ctl` reads the same file: its first line is the process id, its eighth the state.
    fn is_ready(&self, server: Pid) -> bool {
        let file = fs::read_to_string(self.cluster.join("data/postmaster.pid")).unwrap_or_default();
        let mut lines = file.lines().map(str::trim);
        // A killed server leaves its file behind, with its own process id.
        lines.next() == Some(&server.to_string()) && lines.nth(6) == Some("ready")
    }

    fn ended(&self) -> String {
        let log = log(&self.cluster.join("log"));
        format!("PostgreSQL ended before it accepted connections; its log:\n{log}")
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.orders.take());
        // This fails only if the shell was already waited for, and then it has ended.
        let _ = self.shell.wait();
    }
}
