//! A project that cargo really builds, and the command line that a user runs on it.

use serde_json::{Value, json};
use std::borrow::BorrowMut;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Longer than any step takes, even a build beside other builds.
pub(crate) const LIMIT: Duration = Duration::from_secs(180);

pub(crate) const TEMPLATE: &str = "
Resources:
  Idempotency:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 60
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 2 }
  Dead:
    Type: AWS::SQS::Queue
  Payments:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 50
      Environment:
        Variables:
          SQS_ONCE_NAMESPACE: from-the-template
          SQS_ONCE_TABLE: !Ref Idempotency
          SQS_ONCE_DLQ_URL: !Ref Dead
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
";

/// The binary that cargo runs, with an environment for one test.
pub(crate) fn command(arguments: &[&str]) -> Command {
    command_of(env!("CARGO_BIN_EXE_cargo-sqs-once"), arguments)
}

/// A binary with an environment for one test.
pub(crate) fn command_of(binary: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("AWS_") || text.starts_with("SQS_ONCE_") || text == "DATABASE_URL" {
            command.env_remove(&name);
        }
    }
    command
        .args(arguments)
        .env_remove("NO_COLOR")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", "/nowhere/config")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
        .env("AWS_REGION", sqs_once_local::REGION);
    command
}

/// The exit status and output of a command.
pub(crate) struct Run {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn of(mut command: impl BorrowMut<Command>) -> Self {
        Self::ended(command.borrow_mut().output().unwrap())
    }

    pub(crate) fn ended(output: Output) -> Self {
        Self {
            status: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    pub(crate) fn assert_done(&self) {
        self.assert_ended(0, "");
    }

    #[track_caller]
    pub(crate) fn assert_failed_with(&self, message: &str) {
        self.assert_ended(1, message);
    }

    /// The arguments are wrong.
    #[track_caller]
    pub(crate) fn assert_refused_with(&self, message: &str) {
        self.assert_ended(2, message);
    }

    #[track_caller]
    fn assert_ended(&self, status: i32, message: &str) {
        assert_eq!(self.status, Some(status), "{}{}", self.stdout, self.stderr);
        self.says(message);
    }

    /// Checks that standard error has this text.
    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.stderr.contains(text), "{text}: {}", self.stderr);
    }

    /// Checks that standard output has this text.
    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        assert!(self.stdout.contains(text), "{text}: {}", self.stdout);
    }

    /// The line of JSON that is all of standard output.
    #[track_caller]
    pub(crate) fn one(&self) -> Value {
        let [line] = self.json().try_into().unwrap();
        line
    }

    /// The lines of JSON on standard output.
    pub(crate) fn json(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

/// What a test runs the command line on.
pub(crate) trait Runs {
    fn run(&self, arguments: &[&str]) -> Run;

    /// A run that succeeds.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> Run {
        let run = self.run(arguments);
        run.assert_done();
        run
    }

    /// A run that fails with this message.
    #[track_caller]
    fn fails(&self, arguments: &[&str], message: &str) -> Run {
        let run = self.run(arguments);
        run.assert_failed_with(message);
        run
    }
}

/// The answer to an HTTP request with this request line and these headers.
pub(crate) fn http(address: &str, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let length = body.len();
    let request = format!("{head}Connection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn event(messages: &[(&str, &str)]) -> String {
    let records = messages
        .iter()
        .map(|(id, body)| json!({"messageId": id, "body": body}));
    json!({"Records": records.collect::<Vec<_>>()}).to_string()
}

/// A cargo workspace with one Lambda function, in its own folder.
pub(crate) struct Project {
    pub(crate) folder: tempfile::TempDir,
}

impl Project {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    pub(crate) fn new() -> Self {
        let project = Self::empty();
        project.write(
            "Cargo.toml",
            "[workspace]\n\
             [package]\nname = \"payments\"\nedition = \"2024\"\n\
             [dependencies]\nlambda_runtime = { path = \"lambda_runtime\" }\n",
        );
        project.write("src/main.rs", include_str!("fixture/function.rs"));
        project.write(
            "lambda_runtime/Cargo.toml",
            "[package]\nname = \"lambda_runtime\"\nedition = \"2024\"\n",
        );
        project.write("lambda_runtime/src/lib.rs", "");
        project.write("template.yaml", TEMPLATE);
        project
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_file(self.path(path)).unwrap();
    }

    pub(crate) fn event(&self, messages: &[(&str, &str)]) {
        self.write("event.json", &event(messages));
    }

    pub(crate) fn command(&self, subcommand: &str, arguments: &[&str]) -> Command {
        let mut command = command(&[&[subcommand], arguments].concat());
        command
            .current_dir(self.folder.path())
            .env_remove("CARGO_TARGET_DIR")
            .env("CARGO_NET_OFFLINE", "true");
        command
    }
}

/// The lines of a stream as they arrive.
pub(crate) struct Lines {
    receiver: mpsc::Receiver<String>,
    pub(crate) seen: Vec<String>,
}

impl Lines {
    pub(crate) fn of(stream: impl Read + Send + 'static) -> Self {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines() {
                if sender.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            receiver,
            seen: Vec::new(),
        }
    }

    /// Waits for a line that contains `wanted`.
    pub(crate) fn until(&mut self, wanted: &str) -> String {
        loop {
            let Ok(line) = self.receiver.recv_timeout(LIMIT) else {
                panic!("no line has {wanted:?}: {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.contains(wanted) {
                return line;
            }
        }
    }
}

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) stdout: Lines,
    pub(crate) stderr: Lines,
}

impl Running {
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdout: Lines::of(child.stdout.take().unwrap()),
            stderr: Lines::of(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Waits for the queues. Returns their endpoint and the URL of the polled one.
    pub(crate) fn queue(&mut self) -> (String, String) {
        let line = self.stderr.until("SQS: ");
        let line = line.strip_prefix("SQS: ").unwrap();
        let (endpoint, url) = line.split_once(", queue URL: ").unwrap();
        (endpoint.to_owned(), url.to_owned())
    }

    pub(crate) fn interrupt(&self) {
        signal(&self.child.id().to_string());
    }

    #[cfg(unix)]
    pub(crate) fn interrupt_group(&self) {
        signal(&format!("-{}", self.child.id()));
    }

    pub(crate) fn end(mut self) -> (Option<i32>, Vec<String>) {
        let status = self.child.wait().unwrap();
        self.stderr.seen.extend(self.stderr.receiver.iter());
        (status.code(), std::mem::take(&mut self.stderr.seen))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Ends the process if a test fails. It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Interrupts a process, or its process group if the id starts with `-`.
pub(crate) fn signal(id: &str) {
    let killed = Command::new("kill").args(["-INT", "--", id]).status();
    assert!(killed.unwrap().success());
}
