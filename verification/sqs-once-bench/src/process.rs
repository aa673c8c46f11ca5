//! The process of a contender, started as Lambda would start it and measured from outside.

use std::collections::HashSet;
use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, anyhow, bail};
use serde::Deserialize;

use crate::contender::{self, Contender, Program};
use crate::contract;
use crate::machine::{self, Quota};
use crate::runtime_api::RuntimeApi;
use crate::shape::Shape;

/// How long a contender may take until it asks for its first event.
const INIT: Duration = Duration::from_secs(60);

const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A running contender. Dropping this value kills it.
pub struct Process {
    contender: &'static str,
    child: Child,
    runtime_api: RuntimeApi,
    stderr: PathBuf,
    started: Instant,
    /// Dropped after the process has ended.
    quota: Option<Quota>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    batch_item_failures: Vec<serde_json::Value>,
}

impl Process {
    /// Starts a contender for a shape, with the table at `endpoint`.
    ///
    /// Its standard output goes to `/dev/null`. The contender pays for formatting and writing its log lines, but a
    /// reader would take CPU time from it, unlike Lambda's reader.
    pub fn start(
        contender: &Contender,
        program: &Program,
        shape: &Shape,
        endpoint: &str,
    ) -> Result<Self> {
        let failed = || format!("{} can't be started", contender.name);
        let runtime_api = RuntimeApi::start().with_context(failed)?;
        let quota = shape
            .share
            .map(|share| Quota::new(share.cores))
            .transpose()?;
        let memory_mb = shape.share.map_or(1769, |share| share.memory_mb);
        let stderr = contender::workspace()?.join(format!("{}.stderr", contender.name));
        let mut command = Command::new(&program.path);
        command.args(&program.args);
        // Passing the log level on makes the cost of logging measurable.
        let passed_on = ["PATH", "AWS_LAMBDA_LOG_LEVEL"].map(|name| (name, env::var_os(name)));
        let passed_on = passed_on
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(passed_on);
        let concurrency = contender.concurrency.to_string();
        let flag = |is_set| if is_set { "1" } else { "0" };
        command
            .env("AWS_LAMBDA_RUNTIME_API", runtime_api.address())
            .env("AWS_LAMBDA_FUNCTION_NAME", "bench")
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", memory_mb.to_string())
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_DEFAULT_REGION", "eu-central-1")
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // All other services are unreachable. (Port 9 is "discard".)
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            .env("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("SQS_ONCE_TABLE", contender.table())
            .env(contract::TABLE, contender.table())
            .env(contract::CONCURRENCY, concurrency)
            .env(contract::HANDLER_MS, shape.handler_ms.to_string())
            .env(contract::CACHED, flag(shape.cached))
            .env(
                "SQS_ONCE_REQUESTS",
                match contender.single_requests {
                    true => "single",
                    false => "batched",
                },
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&stderr).with_context(failed)?);
        if let Some(concurrency) = shape.concurrency {
            command.env("SQS_ONCE_CONCURRENCY", concurrency.to_string());
        }
        // Lambda's Linux has its roots in one file. Debian also has a directory of single files, and parsing both would
        // make the cold start longer than on Lambda.
        if Path::new(ROOTS).exists() {
            command.env("SSL_CERT_FILE", ROOTS);
        }
        let started = Instant::now();
        let process = Self {
            contender: contender.name,
            child: command.spawn().with_context(failed)?,
            runtime_api,
            stderr,
            started,
            quota,
        };
        if let Some(quota) = &process.quota {
            quota.limit(process.child.id())?;
        }
        Ok(process)
    }

    /// Makes the contender handle an event, and returns its latency.
    pub fn invoke(&mut self, event: &Arc<[u8]>) -> Result<Duration> {
        self.invoke_failing(event, 0)
    }

    /// Like [`Process::invoke`], for an event of which this many records must fail.
    pub fn invoke_failing(&mut self, event: &Arc<[u8]>, failing: usize) -> Result<Duration> {
        self.wait_until_idle()?;
        self.answer(event, failing).map(|(latency, _)| latency)
    }

    /// Makes the contender handle its first event. Returns the time from the process's start to the answer, and the CPU
    /// time.
    pub fn first_answer(&mut self, event: &Arc<[u8]>) -> Result<(Duration, Option<Duration>)> {
        let (_, at) = self.answer(event, 0)?;
        Ok((at - self.started, self.cpu()))
    }

    fn answer(&mut self, event: &Arc<[u8]>, failing: usize) -> Result<(Duration, Instant)> {
        let child = &mut self.child;
        let is_alive = || matches!(child.try_wait(), Ok(None));
        let answer = self.runtime_api.invoke(Arc::clone(event), is_alive);
        let answer = answer.ok_or_else(|| self.silent("answer"))?;
        let text = match &answer.result {
            Ok(body) => match serde_json::from_slice::<Response>(body) {
                Ok(response) if response.batch_item_failures.len() == failing => {
                    return Ok((answer.latency, answer.at));
                }
                _ => String::from_utf8_lossy(body).into_owned(),
            },
            Err(error) => error.clone(),
        };
        let answer: String = text.chars().take(500).collect();
        bail!(
            "{} gave a wrong answer: {answer}; its last words:\n{}",
            self.contender,
            self.last_words()
        )
    }

    /// Waits until the process asks for the next event. Until then it may still be working on the last one.
    pub fn wait_until_idle(&self) -> Result<()> {
        if self.runtime_api.wait_until_idle(INIT) {
            return Ok(());
        }
        Err(self.silent("ask for an event"))
    }

    /// The CPU time of the process so far.
    pub fn cpu(&self) -> Option<Duration> {
        machine::process_cpu(self.child.id())
    }

    /// The peak memory of the process so far, in bytes.
    pub fn peak_memory(&self) -> Option<u64> {
        machine::peak_memory(self.child.id())
    }

    /// Asks the process to end, and waits until it has ended.
    pub fn end(mut self) -> Result<()> {
        machine::terminate(self.child.id());
        let until = Instant::now() + INIT;
        while Instant::now() < until {
            if let Ok(Some(_)) = self.child.try_wait() {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Err(self.silent("end"))
    }

    fn silent(&self, what: &str) -> Error {
        anyhow!(
            "{} did not {what} in time; its last words:\n{}",
            self.contender,
            self.last_words()
        )
    }

    fn last_words(&self) -> String {
        let words = fs::read_to_string(&self.stderr).unwrap_or_default();
        let lines: Vec<_> = words.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The orders for one process: new ones, and ones that it has completed.
#[derive(Debug, Default)]
pub struct Orders {
    next: u64,
    sent: HashSet<u64>,
}

impl Orders {
    /// An event with the known orders, followed by this many new ones.
    pub fn event(&mut self, known: &[u64], fresh: usize) -> (Arc<[u8]>, Vec<u64>) {
        let first = self.next;
        self.next += fresh as u64;
        let orders: Vec<_> = known.iter().copied().chain(first..self.next).collect();
        self.sent.extend(&orders);
        (contract::event(orders.iter().copied()).into(), orders)
    }

    /// An event with the known orders and this many new ones, and with this many copies of each order.
    pub fn batch(&mut self, known: &[u64], fresh: usize, copies: usize) -> Arc<[u8]> {
        let (_, orders) = self.event(known, fresh);
        contract::event(orders.repeat(copies)).into()
    }

    /// The number of different orders that were sent.
    pub fn sent(&self) -> usize {
        self.sent.len()
    }
}
