//! A table of keys, and a terminal.

use crate::project::{Run, Runs, command, signal};
use nix::pty::{OpenptyResult, openpty};
use serde_json::{Value, json};
use sqs_once::BusinessKey;
use sqs_once::key::Namespace;
use sqs_once_local::{LocalDynamoDb, TableDescription};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A DynamoDB with the default table.
pub(crate) async fn dynamodb() -> LocalDynamoDb {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    dynamodb.create_table(&TableDescription::default()).unwrap();
    dynamodb
}

pub(crate) fn id(key: &str) -> String {
    let namespace = Namespace::new("payments").unwrap();
    let key = BusinessKey::new(key).unwrap();
    namespace.item_id(&key).to_string()
}

/// A command that works on the keys in this DynamoDB.
pub(crate) fn on_table(dynamodb: &LocalDynamoDb, arguments: &[&str]) -> Command {
    let mut command = command(&[&["sqs-once"], arguments].concat());
    command
        .env("AWS_ENDPOINT_URL_DYNAMODB", dynamodb.endpoint())
        .env("SQS_ONCE_TABLE", "sqs-once")
        .env("SQS_ONCE_NAMESPACE", "payments")
        .stdin(Stdio::null());
    command
}

impl Run {
    /// Checks that no character acts on a terminal.
    #[track_caller]
    pub(crate) fn assert_is_text(&self) {
        let shown = format!("{}{}", self.stdout, self.stderr);
        let acts = shown.chars().find(|char| {
            let turns = matches!(
                char,
                '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            );
            turns || char.is_control() && *char != '\n'
        });
        assert_eq!(acts, None, "{shown:?}");
    }
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
            let goes_on = self.read();
            assert!(goes_on, "it never showed {text:?}: {}", self.shown);
        }
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for a question, and answers it.
    pub(crate) fn answer(mut self, answer: &str) -> Run {
        self.wait_for("[y/N] ");
        self.write(answer);
        self.end()
    }

    /// Waits for a question, and interrupts the command.
    pub(crate) fn interrupt(mut self) -> Run {
        self.wait_for("[y/N] ");
        signal(&self.child.id().to_string());
        self.end()
    }

    /// Waits for the command to end. Standard error is what the terminal has shown.
    pub(crate) fn end(mut self) -> Run {
        while self.read() {}
        let mut run = Run::ended(self.child.wait_with_output().unwrap());
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

/// A table with items, and the command that works on it.
pub(crate) struct Table {
    pub(crate) dynamodb: LocalDynamoDb,
    command: &'static str,
}

impl Table {
    pub(crate) async fn with(
        command: &'static str,
        items: impl IntoIterator<Item = Value>,
    ) -> Self {
        let table = Self {
            dynamodb: dynamodb().await,
            command,
        };
        items.into_iter().for_each(|item| table.put(item));
        table
    }

    pub(crate) fn put(&self, item: Value) {
        self.dynamodb.put_item("sqs-once", item).unwrap();
    }

    pub(crate) fn item(&self, id: &str) -> Value {
        let key = json!({"id": {"S": id}});
        let item = self.dynamodb.item("sqs-once", key).unwrap();
        item.unwrap_or_default()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        on_table(&self.dynamodb, &[&[self.command], arguments].concat())
    }

    pub(crate) fn asked(&self, arguments: &[&str]) -> AtTerminal {
        AtTerminal::start(self.command(arguments))
    }
}

impl Runs for Table {
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments))
    }
}

/// A file of changes that is not there yet.
pub(crate) struct Log {
    _folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Log {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("changes.jsonl");
        Self {
            _folder: folder,
            path,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    /// Its lines. It is for its owner alone.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let mode = std::fs::metadata(&self.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = std::fs::read_to_string(&self.path).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }
}
