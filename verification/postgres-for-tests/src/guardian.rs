//! The process between the test and its server: see `guardian.sh`.

use crate::error::{Error, file};
use crate::processes;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use sysinfo::Pid;

/// How long a server may take to start, recovery included, on a machine that does much else.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at the file in which the server says that it is ready.
const PAUSE: Duration = Duration::from_millis(2);

/// Holds the server's processes and its data. Dropped, it ends both.
pub(crate) struct Guardian {
    cluster: PathBuf,
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    server: Option<Pid>,
}

impl Guardian {
    /// Watches over a directory and the servers that `command` will start.
    pub(crate) fn new(cluster: PathBuf, command: &Command) -> Result<Self, Error> {
        let mut shell = Command::new("sh")
            .args(["-c", include_str!("guardian.sh"), "guardian"])
            .arg(&cluster)
            .arg(command.get_program())
            .args(command.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Whoever interrupts or kills the test with its process group must not prevent its end.
            .process_group(0)
            .spawn()
            .map_err(|source| Error::Spawn {
                program: "sh".to_owned(),
                source,
            })?;
        let (orders, answers) = (shell.stdin.take(), shell.stdout.take());
        Ok(Self {
            cluster,
            shell,
            orders,
            answers: BufReader::new(answers.expect("standard output is piped")),
            server: None,
        })
    }

    /// Starts a server where none runs, and waits until it accepts connections.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        let mut answer = String::new();
        self.orders
            .as_mut()
            .expect("standard input is open until the drop")
            .write_all(b"start\n")
            .and_then(|()| self.answers.read_line(&mut answer))
            .map_err(|source| Error::Spawn {
                program: "the server's guardian".to_owned(),
                source,
            })?;
        let server = answer
            .trim()
            .parse()
            .map_err(|_| Error::Ended { log: self.log() })?;
        self.server = Some(server);
        self.wait_until_ready(server)
    }

    /// Kills the server with all its processes at once, as the end of the machine would.
    pub(crate) fn kill(&mut self) {
        if let Some(server) = self.server.take() {
            processes::kill_with_children(server);
        }
    }

    fn wait_until_ready(&self, server: Pid) -> Result<(), Error> {
        let started = Instant::now();
        while !self.is_ready(server) {
            if !processes::runs(server) {
                return Err(Error::Ended { log: self.log() });
            }
            if started.elapsed() > START_LIMIT {
                return Err(Error::NotReady {
                    seconds: START_LIMIT.as_secs(),
                    log: self.log(),
                });
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// `pg_ctl` looks there, too: the first line of the file is the process, the eighth its state.
    fn is_ready(&self, server: Pid) -> bool {
        let file = fs::read_to_string(self.cluster.join("data/postmaster.pid")).unwrap_or_default();
        let mut lines = file.lines().map(str::trim);
        // A server that was killed has left its own.
        lines.next() == Some(&server.to_string()) && lines.nth(6) == Some("ready")
    }

    fn log(&self) -> String {
        let path = self.cluster.join("log");
        fs::read_to_string(&path)
            .map_err(file(path))
            .unwrap_or_else(|error| error.to_string())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.orders.take());
        // It can only fail if somebody else has waited for it, and then it has ended.
        let _ = self.shell.wait();
    }
}
