//! How a function's process is started: its binary and its environment.

use crate::REGION;
use crate::dynamodb::LocalDynamoDb;
use crate::function::{Function, StartError};
use crate::log::RecordLine;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;

/// What is called with every line of output that is not a record line.
pub(crate) type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

/// What is called with every record line.
pub(crate) type OnRecord = Arc<dyn Fn(RecordLine) + Send + Sync>;

/// Where AWS services that are not emulated are found: nowhere. (Port 9 is "discard".)
const NOWHERE: &str = "http://127.0.0.1:9";

/// A configuration file that is empty.
const EMPTY_FILE: &str = if cfg!(windows) { "NUL" } else { "/dev/null" };

/// A function about to be started.
///
/// The process gets this process's environment without any `AWS_…` variable, then what Lambda
/// sets, dummy credentials, and loopback endpoints, then what [`Launch::env`] adds. Its logs are
/// JSON.
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
    /// A function that is the executable at `binary`, and called by that file's name. It has
    /// 128 MB of memory by its own account, and its log lines go nowhere, unless set otherwise.
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

    /// Runs another executable, under the name of the first.
    pub fn binary(mut self, binary: impl Into<PathBuf>) -> Self {
        self.binary = binary.into();
        self
    }

    /// Sets the memory size the function is told, in MB. Nothing enforces it.
    pub fn memory_mb(mut self, memory_mb: u32) -> Self {
        self.memory_mb = memory_mb;
        self
    }

    /// Points the function's DynamoDB clients at `dynamodb`.
    pub fn dynamodb(self, dynamodb: &LocalDynamoDb) -> Self {
        self.env("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.endpoint())
    }

    /// Sets an environment variable; the last value given for a name counts.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Calls `on_line` with every line the function writes, on either stream, except for record
    /// lines. It is called as the lines come, from a background task.
    pub fn on_line(mut self, on_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_line = Arc::new(on_line);
        self
    }

    /// Calls `on_record` with every record line as it comes. [`Function::stop`] then returns none.
    pub fn on_record(mut self, on_record: impl Fn(RecordLine) + Send + Sync + 'static) -> Self {
        self.on_record = Some(Arc::new(on_record));
        self
    }

    /// Changes how long the function may take to ask for an event (10 s, as on Lambda, unless
    /// set).
    pub fn init_limit(mut self, limit: Duration) -> Self {
        self.init_limit = Some(limit);
        self
    }

    /// Keeps a terminal's Ctrl-C from the process: whoever started it decides when it ends. Without effect on Windows.
    pub fn own_group(mut self) -> Self {
        self.own_group = true;
        self
    }

    /// Starts the function.
    ///
    /// # Errors
    /// [`StartError`] if the binary can't be run or no loopback port could be had.
    pub async fn start(self) -> Result<Function, StartError> {
        Function::start(self).await
    }

    /// Lines for CloudWatch help nobody here, unless somebody has asked for them.
    fn no_metrics(&self) -> Option<(&str, &str)> {
        const METRICS: &str = "SQS_ONCE_METRICS";
        std::env::var_os(METRICS)
            .is_none()
            .then_some((METRICS, "off"))
    }

    /// The command that runs the binary against a Runtime API at `runtime_api`.
    pub(crate) fn command(&self, runtime_api: &str) -> Command {
        let mut command = Command::new(&self.binary);
        #[cfg(unix)]
        if self.own_group {
            command.process_group(0);
        }
        for (name, _) in std::env::vars_os() {
            let is_aws = name.to_string_lossy().starts_with("AWS_");
            // How much to log is the one thing worth passing on.
            if is_aws && name != "AWS_LAMBDA_LOG_LEVEL" {
                command.env_remove(name);
            }
        }
        // Whatever level the developer's shell asks for, the record lines are read here.
        let level = ["RUST_LOG", "AWS_LAMBDA_LOG_LEVEL"]
            .iter()
            .find_map(|name| std::env::var(name).ok().filter(|level| !level.is_empty()));
        if let Some(level) = level {
            command.env("RUST_LOG", with_record_lines(&level));
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
            .envs(self.no_metrics())
            .env("_HANDLER", "bootstrap")
            .env("AWS_REGION", REGION)
            .env("AWS_DEFAULT_REGION", REGION)
            .env("AWS_ACCESS_KEY_ID", "local")
            .env("AWS_SECRET_ACCESS_KEY", "local")
            .env("AWS_ENDPOINT_URL", NOWHERE)
            .env("AWS_EC2_METADATA_DISABLED", "true")
            // The developer's own profiles have no business here.
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

/// Adds the record lines to what is logged. The rest stays as it was written: levels may be in either
/// case, targets have only one.
fn with_record_lines(filter: &str) -> String {
    format!("{filter},sqs_once::record=info")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_filters_targets_keep_their_case() {
        assert_eq!(
            with_record_lines("WARN,Ledger::Audit=DEBUG"),
            "WARN,Ledger::Audit=DEBUG,sqs_once::record=info"
        );
    }
}
