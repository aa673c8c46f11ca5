//! How a function's process is started: its binary and its environment.

use crate::REGION;
use crate::dynamodb::LocalDynamoDb;
use crate::log::{OnLine, OnRecord, RecordLine};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;

/// The endpoint of AWS services that are not emulated. Port 9 ("discard") is normally closed.
const NOWHERE: &str = "http://127.0.0.1:9";

/// The flag of Windows that makes a process ignore Ctrl-C in its console.
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

const EMPTY_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// A function to start.
///
/// The process inherits this process's environment without its `AWS_…` variables, except `AWS_LAMBDA_LOG_LEVEL`. It
/// then gets the variables that Lambda sets, dummy credentials and loopback endpoints, and finally what [`Launch::env`]
/// adds. It logs JSON.
#[derive(Clone)]
pub struct Launch {
    pub(crate) binary: PathBuf,
    pub(crate) name: String,
    pub(crate) on_line: OnLine,
    pub(crate) on_record: Option<OnRecord>,
    pub(crate) init_limit: Option<Duration>,
    own_group: bool,
    memory_mb: u32,
    env: Vec<(String, String)>,
}

impl Launch {
    /// Creates a launch of the executable at `binary`. The function is named after the file, reports 128 MB of memory
    /// and discards its log lines, unless set otherwise.
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let binary = binary.into();
        let name = binary.file_stem().map_or_else(
            || "function".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        Self {
            binary,
            name,
            on_line: Arc::new(|_| {}),
            on_record: None,
            init_limit: None,
            own_group: false,
            memory_mb: 128,
            env: Vec::new(),
        }
    }

    /// Runs another executable under the same function name.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Sets the memory size that the function sees, in MB. It is not enforced.
    pub fn memory_mb(mut self, memory_mb: u32) -> Self {
        self.memory_mb = memory_mb;
        self
    }

    /// Points the function's DynamoDB clients at `dynamodb`.
    pub fn dynamodb(self, dynamodb: &LocalDynamoDb) -> Self {
        self.env("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.endpoint())
    }

    /// Sets an environment variable. The last value for a name wins.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Calls `on_line` with every line that the function writes to standard output or standard error, except record
    /// lines. The calls come from a background task as the lines arrive.
    pub fn on_line(mut self, on_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_line = Arc::new(on_line);
        self
    }

    /// Calls `on_record` with every record line as it arrives. [`Function::stop`](crate::Function::stop) then returns none.
    pub fn on_record(mut self, on_record: impl Fn(RecordLine) + Send + Sync + 'static) -> Self {
        self.on_record = Some(Arc::new(on_record));
        self
    }

    /// Sets how long the function may take to ask for its first event. 10 s by default, as on Lambda.
    pub fn init_limit(mut self, limit: Duration) -> Self {
        self.init_limit = Some(limit);
        self
    }

    /// Shields the process from Ctrl-C in the terminal, so that the caller decides when it ends.
    pub fn own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    pub(crate) fn command(&self, runtime_api: &str) -> Command {
        let mut command = Command::new(&self.binary);
        if self.own_group {
            #[cfg(unix)]
            command.process_group(0);
            #[cfg(windows)]
            command.creation_flags(CREATE_NEW_PROCESS_GROUP);
        }
        for (name, _) in std::env::vars_os() {
            let is_aws = name.to_string_lossy().starts_with("AWS_");
            // The developer's log level applies to the function as well.
            if is_aws && name != "AWS_LAMBDA_LOG_LEVEL" {
                command.env_remove(name);
            }
        }
        // This crate reads the record lines, so they are logged at any level.
        let level = ["RUST_LOG", "AWS_LAMBDA_LOG_LEVEL"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|level| !level.is_empty()));
        if let Some(level) = level {
            command.env("RUST_LOG", with_record_lines(&level));
        }
        // Metrics lines for CloudWatch are off, unless the developer has set the variable.
        if std::env::var_os("SQS_ONCE_METRICS").is_none() {
            command.env("SQS_ONCE_METRICS", "off");
        }
        let name = &self.name;
        command
            .env("AWS_LAMBDA_RUNTIME_API", runtime_api)
            .env("AWS_LAMBDA_FUNCTION_NAME", name)
            .env("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            .env(
                "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
                self.memory_mb.to_string(),
            )
            .env("AWS_LAMBDA_INITIALIZATION_TYPE", "on-demand")
            .env("AWS_LAMBDA_LOG_GROUP_NAME", format!("/aws/lambda/{name}"))
            .env("AWS_LAMBDA_LOG_STREAM_NAME", "local")
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env("_HANDLER", "bootstrap")
            .env("AWS_REGION", REGION)
            .env("AWS_DEFAULT_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_ENDPOINT_URL", NOWHERE)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // The developer's own profiles must not affect the function.
            .env("AWS_CONFIG_FILE", EMPTY_FILE)
            .env("AWS_SHARED_CREDENTIALS_FILE", EMPTY_FILE)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// Adds the record lines to a log filter. Leaves the rest as it is: levels ignore case, but targets do not.
fn with_record_lines(filter: &str) -> String {
    format!("{filter},sqs_once::record=info")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filters_targets_keep_their_case() {
        let filter = with_record_lines("WARN,Ledger::Audit=DEBUG");
        assert_eq!(filter, "WARN,Ledger::Audit=DEBUG,sqs_once::record=info");
    }
}
