//! Runs the command line as a user does, with pipes and at a terminal.

use crate::project::Run;
use nix::pty::{OpenptyResult, openpty};
use sqs_once_local::{LocalDynamoDb, REGION, TableDescription};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

/// The binary with an environment for one test.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-sqs-once"));
    command.args(arguments);
    command.env_remove("NO_COLOR");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("AWS_") || text.starts_with("SQS_ONCE_") {
            command.env_remove(&name);
        }
    }
    command
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test")
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .env("AWS_CONFIG_FILE", "/nowhere/config")
        .env("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials")
        .env("AWS_REGION", REGION);
    command
}

/// A DynamoDB with the default table.
pub(crate) async fn dynamodb() -> LocalDynamoDb {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&TableDescription::default()).unwrap();
    dynamodb
}

/// A command whose standard input and standard error are a terminal.
pub(crate) struct AtTerminal {
    child: Child,
    terminal: File,
    /// The terminal's output so far.
    pub(crate) shown: String,
}

impl AtTerminal {
    pub(crate) fn start(mut command: Command) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).unwrap();
        command
            .stdin(Stdio::from(slave.try_clone().unwrap()))
            .stderr(Stdio::from(slave))
            .stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        // Drop our copy of the terminal's other end, so that it closes when the command ends.
        drop(command);
        Self {
            child,
            terminal: File::from(master),
            shown: String::new(),
        }
    }

    /// Waits until the terminal shows a text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.shown.contains(text) {
            assert!(
                self.read(),
                "the terminal never showed {text:?}: {}",
                self.shown
            );
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the command to end. Standard error is what the terminal has shown.
    pub(crate) fn end(mut self) -> Run {
        while self.read() {}
        let mut run = Run::of(self.child.wait_with_output().unwrap());
        run.stderr = self.shown;
        run
    }

    /// Reads more output. Returns `false` at the end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // Linux reports EIO where other systems report end of file.
        match self.terminal.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.shown
                    .push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
        }
    }
}
