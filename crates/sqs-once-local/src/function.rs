//! A running function: its process, its Runtime API and its output.

use crate::launch::Launch;
use crate::lock;
use crate::log::{OnLine, OnRecord, RecordLine};
use crate::runtime_api::{InvokeError, RuntimeApi};
use axum::body::Bytes;
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How many of the last lines of standard error to keep for the error that reports the process's exit.
const LAST_LINES: usize = 20;

/// How long to wait for the output of a dead process. The output ends with the process, unless a child of the process
/// has inherited it.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// A function's process with its Runtime API. Dropping it kills the process.
pub struct Function {
    runtime_api: RuntimeApi,
    output: Arc<Output>,
    // Dropping the sender kills the process.
    kill: Option<oneshot::Sender<()>>,
    status: watch::Receiver<Option<ExitStatus>>,
}

impl Launch {
    /// Starts the function.
    ///
    /// # Errors
    /// [`StartError`] if the binary can't be run or no loopback port is available.
    pub async fn start(self) -> Result<Function, StartError> {
        let mut runtime_api = RuntimeApi::start(&self.name)
            .await
            .map_err(StartError::Listen)?;
        if let Some(limit) = self.init_limit {
            runtime_api = runtime_api.init_limit(limit);
        }
        let mut command = self.command(&runtime_api.address().to_string());
        let mut child = command.spawn().map_err(|source| StartError::Spawn {
            binary: self.binary.clone(),
            source,
        })?;
        let output = Arc::new(Output {
            lines: Mutex::default(),
            on_line: self.on_line,
            on_record: self.on_record,
        });
        let stdout = child.stdout.take();
        let stdout = stdout.map(|stdout| tokio::spawn(output.clone().read_stdout(stdout)));
        let stderr = child.stderr.take();
        let stderr = stderr.map(|stderr| tokio::spawn(output.clone().read_stderr(stderr)));
        let (kill, killed) = oneshot::channel();
        let (ended, status) = watch::channel(None);
        let readers = stdout.into_iter().chain(stderr).collect();
        tokio::spawn(watch_process(child, readers, killed, ended));
        Ok(Function {
            runtime_api,
            output,
            kill: Some(kill),
            status,
        })
    }
}

impl Function {
    /// Sends an event to the function and returns its answer unchanged.
    ///
    /// The function gets a deadline of `timeout` from the moment it takes the event. A function that misses it keeps
    /// running until it is stopped or dropped.
    ///
    /// # Errors
    /// The errors of [`RuntimeApi::invoke`], and [`InvokeError::Exited`] if the process ends before it has answered.
    pub async fn invoke(
        &self,
        event: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<Bytes, InvokeError> {
        let answer = self.runtime_api.invoke(event, timeout);
        self.unless_exited(answer).await
    }

    /// Like [`Function::invoke`], with a request id chosen by the caller.
    pub(crate) async fn invoke_as(
        &self,
        request_id: &str,
        event: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, InvokeError> {
        let answer = self.runtime_api.invoke_as(request_id, event, timeout);
        self.unless_exited(answer).await
    }

    /// Waits until the function has initialised, which is when it asks for its first event.
    ///
    /// # Errors
    /// The errors of [`RuntimeApi::ready`], and [`InvokeError::Exited`] if the process ends before.
    pub async fn ready(&self) -> Result<(), InvokeError> {
        self.unless_exited(self.runtime_api.ready()).await
    }

    async fn unless_exited<T>(
        &self,
        answer: impl Future<Output = Result<T, InvokeError>>,
    ) -> Result<T, InvokeError> {
        tokio::select! {
            biased;
            // A function may answer and exit at once. Its answer counts.
            answer = answer => answer,
            status = self.ended() => Err(InvokeError::Exited {
                last_lines: lock(&self.output.lines).last.iter().cloned().collect(),
                status,
            }),
        }
    }

    /// Whether the function waits for an event now.
    pub(crate) fn is_asking(&self) -> bool {
        self.runtime_api.is_asking()
    }

    /// Whether the function asks for its next event within `limit`.
    pub(crate) async fn is_asking_within(&self, limit: Duration) -> bool {
        tokio::select! {
            biased;
            is_asking = self.runtime_api.is_asking_within(limit) => is_asking,
            _ = self.ended() => false,
        }
    }

    /// The process's exit status, or `None` while it runs.
    pub fn status(&self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    /// Kills the process and returns every record line that it has written, unless [`Launch::on_record`] received them.
    pub async fn stop(mut self) -> Vec<RecordLine> {
        self.kill = None;
        self.ended().await;
        std::mem::take(&mut lock(&self.output.lines).records)
    }

    /// Waits until the process has ended and its output is read.
    async fn ended(&self) -> ExitStatus {
        let mut status = self.status.clone();
        let ended = status.wait_for(Option::is_some).await.ok();
        ended.and_then(|status| *status).unwrap_or_default()
    }
}

/// Waits for a process and its output, and reports its end. Kills it if the sender of `killed` is gone.
async fn watch_process(
    mut child: Child,
    readers: Vec<JoinHandle<()>>,
    killed: oneshot::Receiver<()>,
    ended: watch::Sender<Option<ExitStatus>>,
) {
    let status = tokio::select! {
        status = child.wait() => status,
        _ = killed => {
            // The process may have exited by itself just now.
            let _ = child.start_kill();
            child.wait().await
        }
    };
    let _ = tokio::time::timeout(OUTPUT_LIMIT, async {
        for reader in readers {
            let _ = reader.await;
        }
    })
    .await;
    // Waiting fails only if other code has already waited for the child. Dropping `ended` then reports that the process
    // is gone.
    if let Ok(status) = status {
        ended.send_replace(Some(status));
    }
}

struct Output {
    lines: Mutex<Lines>,
    on_line: OnLine,
    on_record: Option<OnRecord>,
}

#[derive(Default)]
struct Lines {
    records: Vec<RecordLine>,
    last: VecDeque<String>,
}

impl Output {
    async fn read_stdout(self: Arc<Self>, stdout: impl AsyncRead + Unpin) {
        read_lines(stdout, |line| match RecordLine::parse(line) {
            Some(record) => match &self.on_record {
                Some(on_record) => on_record(record),
                None => lock(&self.lines).records.push(record),
            },
            None => (self.on_line)(line),
        })
        .await;
    }

    async fn read_stderr(self: Arc<Self>, stderr: impl AsyncRead + Unpin) {
        read_lines(stderr, |line| {
            let mut lines = lock(&self.lines);
            if lines.last.len() == LAST_LINES {
                lines.last.pop_front();
            }
            lines.last.push_back(line.to_owned());
            drop(lines);
            (self.on_line)(line);
        })
        .await;
    }
}

/// Reads to the end, so that the process never blocks on a full pipe. Replaces bytes that are not UTF-8.
async fn read_lines(stream: impl AsyncRead + Unpin, mut on_line: impl FnMut(&str)) {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while let Ok(1..) = stream.read_until(b'\n', &mut line).await {
        on_line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']));
        line.clear();
    }
}

/// The function could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The binary could not be run.
    #[error("the function's binary {binary} can't be run", binary = binary.display())]
    Spawn {
        /// The binary.
        binary: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The Runtime API could not get a loopback port.
    #[error("the Lambda Runtime API can't listen on 127.0.0.1")]
    Listen(#[source] io::Error),
}
