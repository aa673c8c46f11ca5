//! Processes of a test program whose stdout a test reads.

#![allow(clippy::print_stdout, reason = "what is printed beside the log")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Serialize;
use serde::de::IgnoredAny;
use sqs_once::HandlerError;
use sqs_once_local::RuntimeApi;

use crate::no_secrets::watch::{self, UNWATCHED};

/// The variable that makes a process of this program set up logging.
const LOGGING: &str = "TEST_LOGGING";

/// The variable with which a request to the store carries one key.
pub(crate) const SINGLE: (&str, &str) = ("SQS_ONCE_REQUESTS", "single");

/// Starts this program again to run one test of the module in `module_path!()`.
pub(crate) fn this_program(module: &str, test: &str) -> Command {
    // The harness's names of tests do not contain the program.
    let (_program, module) = module.split_once("::").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("{module}::{test}")]);
    command
}

/// A process as the function that a Runtime API drives, without a store. Its output can be read.
pub(crate) fn driven_by(
    lambda: &RuntimeApi,
    function: impl Into<tokio::process::Command>,
) -> tokio::process::Command {
    let mut function = function.into();
    function
        .env(UNWATCHED, "1")
        .env("AWS_LAMBDA_RUNTIME_API", lambda.address().to_string())
        .env("AWS_LAMBDA_FUNCTION_NAME", "orders")
        .env("AWS_LAMBDA_FUNCTION_VERSION", "1")
        .env("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "128")
        // The function logs a warning about this.
        .env("SQS_ONCE_DISABLED", "true")
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    function
}

/// Runs one test of the module in another process with these variables. The test must pass.
pub(crate) fn passes(module: &str, test: &str, variables: &[(&str, &str)]) {
    let mut process = this_program(module, test);
    let output = process.envs(variables.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    watch::pass_on(&said);
    assert!(said.contains("1 passed"), "{said}");
}

/// Whether this process has these variables. If not, the test that calls this must pass in another process that has them.
macro_rules! has {
    ($variables:expr) => {{
        fn here() {}
        let path = std::any::type_name_of_val(&here);
        $crate::support::process::has_or_passes(path, $variables)
    }};
}
pub(crate) use has;

pub(crate) fn has_or_passes(path: &str, variables: &[(&str, &str)]) -> bool {
    let is_set = std::env::var_os(variables[0].0).is_some();
    if !is_set {
        // An asynchronous test has a closure around its code.
        let path = path.trim_end_matches("::here");
        let test = path.trim_end_matches("::{{closure}}");
        let (module, test) = test.rsplit_once("::").unwrap();
        passes(module, test, variables);
    }
    is_set
}

/// Another process of this program that runs one of its tests.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Process {
    /// Sets these variables and removes all other variables of the logging. By default, it logs JSON.
    pub(crate) fn start(module: &str, test: &str, variables: &[(&str, &str)]) -> Self {
        let mut child = this_program(module, test)
            .args(["--nocapture", "--test-threads=2"])
            .env(LOGGING, "1")
            .env(UNWATCHED, "1")
            .env("AWS_LAMBDA_LOG_FORMAT", "JSON")
            .env_remove("AWS_LAMBDA_LOG_LEVEL")
            .env_remove("RUST_LOG")
            .env_remove("SQS_ONCE_TABLE")
            .env_remove("AWS_LAMBDA_FUNCTION_NAME")
            // On Lambda, a consumer creates an SQS client, which must find no credentials.
            .env("AWS_REGION", "eu-central-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut process = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        // The harness prints its own lines first.
        while process.line() != "logging\n" {}
        process
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let length = self.output.read_line(&mut line).unwrap();
        assert_ne!(length, 0, "the process has ended");
        line
    }

    pub(crate) fn tell(&mut self, told: &impl Serialize) {
        let told = serde_json::to_string(told).unwrap();
        writeln!(self.input, "{told}").unwrap();
    }

    /// Waits until the process ends successfully, and returns its remaining lines.
    pub(crate) fn rest(mut self) -> Vec<String> {
        drop(self.input);
        let lines = self.output.lines().map(Result::unwrap).collect();
        assert!(self.child.wait().unwrap().success());
        lines
    }
}

/// Whether this process must log. If so, sets up its logging.
pub(crate) async fn is_logging() -> bool {
    if std::env::var_os(LOGGING).is_none() {
        return false;
    }
    println!("\nlogging");
    let consumer = sqs_once::Handler::json::<IgnoredAny>()
        .key(|_: &IgnoredAny| "o-1")
        .call(async |_: IgnoredAny| Ok::<(), HandlerError>(()))
        .namespace("logs");
    // This fails because there is no table.
    sqs_once::run(consumer).await.unwrap_err();
    true
}
