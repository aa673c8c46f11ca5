//! Runs `cargo sqs-once dlq` as a user does, on queues and a table in this process.

use crate::project::Run;
use crate::support::{AtTerminal, command, dynamodb};
use serde_json::{Value, json};
use sqs_once::BusinessKey;
use sqs_once::key::Namespace;
use sqs_once_local::{LocalDynamoDb, LocalSqs, NewMessage, QueueSettings, Queues, Redrive};
use std::process::{Command, Stdio};
use std::time::SystemTime;

fn id(key: &str) -> String {
    let namespace = Namespace::new("payments").unwrap();
    namespace
        .item_id(&BusinessKey::new(key).unwrap())
        .to_string()
}

/// `orders` and its dead letters: failed ones, completed ones, and ones that SQS itself moved.
struct Account {
    sqs: LocalSqs,
    dynamodb: LocalDynamoDb,
}

impl Account {
    async fn empty() -> Self {
        let mut queues = Queues::default();
        queues
            .create("orders-dlq", QueueSettings::default())
            .unwrap();
        let redrive = Some(Redrive {
            to: "orders-dlq".to_owned(),
            max_receive_count: 3,
        });
        let settings = QueueSettings {
            redrive,
            ..QueueSettings::default()
        };
        queues.create("orders", settings).unwrap();
        Self {
            sqs: LocalSqs::start(queues).await.unwrap(),
            dynamodb: dynamodb().await,
        }
    }

    async fn new() -> Self {
        let account = Self::empty().await;
        account.put("m-failed", "o-1", true);
        account.put("m-done", "o-2", true);
        account.put("m-moved", "o-3", false);
        account.item("o-1", "INPROGRESS");
        account.item("o-2", "COMPLETED");
        account.item("o-3", "COMPLETED");
        account
    }

    fn put(&self, message: &str, order: &str, says_its_key: bool) {
        let body = json!({"order": {"id": order}}).to_string();
        let mut message = NewMessage::new(message, body);
        if says_its_key {
            let text = |value: &str| json!({"DataType": "String", "StringValue": value});
            message.attributes = json!({
                "tenant": text("seven"),
                "sqs-once-key": text(&id(order)),
                "sqs-once-reason": text("the card was refused"),
            })
            .as_object()
            .unwrap()
            .clone();
        }
        let mut queues = self.sqs.queues();
        queues
            .send("orders-dlq", message, SystemTime::now())
            .unwrap();
    }

    fn item(&self, order: &str, status: &str) {
        let item = json!({
            "id": {"S": id(order)}, "status": {"S": status}, "in_progress_expiration": {"N": "0"},
        });
        self.dynamodb.put_item("sqs-once", item).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&[&["sqs-once", "dlq"], arguments].concat());
        command
            .args(["--queue", "orders-dlq"])
            .env("AWS_ENDPOINT_URL_SQS", self.sqs.endpoint())
            .env("AWS_ENDPOINT_URL_DYNAMODB", self.dynamodb.endpoint())
            .env("SQS_ONCE_TABLE", "sqs-once")
            .env("SQS_ONCE_NAMESPACE", "payments")
            .stdin(Stdio::null());
        command
    }

    fn dlq(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }

    /// The ids in the dead-letter queue, and the bodies in its source.
    fn queues(&self) -> (Vec<String>, Vec<String>) {
        let queues = self.sqs.queues();
        let letters = queues.messages("orders-dlq").unwrap();
        let mut letters: Vec<_> = letters.map(|message| message.id.clone()).collect();
        letters.sort();
        let orders = queues.messages("orders").unwrap();
        let orders = orders.map(|message| message.body.clone());
        (letters, orders.collect())
    }

    #[track_caller]
    fn assert_all_are_back(&self) {
        assert_eq!(self.queues().0, ["m-done", "m-failed", "m-moved"]);
        let queues = self.sqs.queues();
        assert_eq!(
            queues.in_flight("orders-dlq", SystemTime::now()).unwrap(),
            0
        );
    }
}

fn lines(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_with_what_the_table_knows_of_them_and_put_back() {
    let account = Account::new().await;
    let run = account.dlq(&["list"]);
    run.assert_done();
    let state_of = |run: &Run, message: &str| {
        let line = run
            .stdout
            .lines()
            .find(|line| line.contains(message))
            .unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(state_of(&run, "m-failed"), "failed");
    assert_eq!(state_of(&run, "m-done"), "completed");
    assert_eq!(state_of(&run, "m-moved"), "unknown-key");
    assert!(
        run.stdout.contains("the card was refused"),
        "{}",
        run.stdout
    );
    account.assert_all_are_back();

    let run = account.dlq(&["list", "--key-from", "/order/id"]);
    assert_eq!(state_of(&run, "m-moved"), "completed");
    let run = account.dlq(&["list", "--json", "--state", "failed"]);
    let [line] = lines(&run).try_into().unwrap();
    assert_eq!(
        (&line["id"], &line["state"]),
        (&json!("m-failed"), &json!("failed"))
    );
    assert_eq!(line["key"], id("o-1"));
    let run = account.dlq(&["list", "--limit", "1"]);
    assert_eq!(run.stdout.lines().count(), 1);
    assert!(run.stderr.contains("there are more"), "{}", run.stderr);
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_fifo_queue_does_not_give_is_said() {
    let account = Account::empty().await;
    {
        let mut queues = account.sqs.queues();
        let fifo = "returns-dlq.fifo";
        queues.create(fifo, QueueSettings::default()).unwrap();
        for at in 0..12 {
            let message = NewMessage::new(format!("m-{at}"), "{}");
            let message = message.in_group("one", format!("d-{at}"));
            queues.send(fifo, message, SystemTime::now()).unwrap();
        }
    }
    let run = |arguments: &[&str]| {
        let mut command =
            command(&[&["dlq"], arguments, &["--queue", "returns-dlq.fifo"]].concat());
        command.env("AWS_ENDPOINT_URL_SQS", account.sqs.endpoint());
        Run::of(command.output().unwrap())
    };
    for (arguments, not_given) in [
        (&["list"][..], "about 2 more messages were not looked at"),
        (
            &["drop", "--all", "--yes"],
            "about 2 more messages were not looked at",
        ),
        (&["list"], ""),
    ] {
        let run = run(arguments);
        run.assert_done();
        let said = run.stderr.contains("were not looked at");
        assert_eq!(said, !not_given.is_empty(), "{}", run.stderr);
        assert!(run.stderr.contains(not_given), "{}", run.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_is_shown_whole() {
    let account = Account::new().await;
    let run = account.dlq(&["show", "m-done"]);
    run.assert_done();
    for part in [
        "state         completed\n",
        "attribute     sqs-once-reason (String): the card was refused\n",
        "body          {\"order\":{\"id\":\"o-2\"}}\n",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    account
        .dlq(&["show", "m-none"])
        .assert_failed_with("m-none: not received from the queue");
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_refuses_what_is_completed_unless_told() {
    let account = Account::new().await;
    let run = account.dlq(&[
        "redrive",
        "--all",
        "--yes",
        "--json",
        "--key-from",
        "/order/id",
    ]);
    run.assert_failed_with("2 messages stay, because their effect is done");
    let summary = lines(&run).pop().unwrap();
    assert_eq!(
        (&summary["redriven"], &summary["completed"]),
        (&json!(1), &json!(2))
    );
    let (letters, orders) = account.queues();
    assert_eq!(letters, ["m-done", "m-moved"]);
    assert_eq!(orders, [r#"{"order":{"id":"o-1"}}"#]);

    let run = account.dlq(&["redrive", "m-done", "--even-completed"]);
    run.assert_done();
    assert!(
        run.stdout.starts_with("sent 1 message to http://"),
        "{}",
        run.stdout
    );
    assert_eq!(account.queues().0, ["m-moved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_selected_is_redriven() {
    let account = Account::new().await;
    let run = account.dlq(&["redrive", "--state", "failed"]);
    run.assert_done();
    assert_eq!(account.queues().0, ["m-done", "m-moved"]);
    let run = account.dlq(&["redrive", "m-moved", "m-none"]);
    run.assert_failed_with("m-none: not received from the queue");
    // It is completed, but the message does not contain its key.
    assert!(
        run.stderr.contains("of 1 of them the key is not known"),
        "{}",
        run.stderr
    );
    assert_eq!(account.queues().0, ["m-done"]);

    let nothing = account.dlq(&["redrive"]);
    assert_eq!(nothing.status, Some(2), "{}", nothing.stderr);
    let pointer = account.dlq(&["list", "--key-from", "order"]);
    assert_eq!(pointer.status, Some(2), "{}", pointer.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_table_nobody_knows_what_is_completed() {
    let account = Account::new().await;
    let without = |arguments: &[&str]| {
        let mut command = account.command(arguments);
        Run::of(command.env_remove("SQS_ONCE_TABLE").output().unwrap())
    };
    without(&["redrive", "--all"]).assert_failed_with("without it, nobody knows what is completed");
    without(&["list", "--state", "failed"]).assert_failed_with("--state needs the table");
    let run = without(&["list"]);
    run.assert_done();
    assert_eq!(run.stdout.matches("unknown-key").count(), 3);
    account.assert_all_are_back();
    without(&["redrive", "--all", "--yes", "--even-completed"]).assert_done();
    assert_eq!(account.queues().1.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bar_is_shown_on_a_terminal_only() {
    let account = Account::new().await;
    let run = account.dlq(&["redrive", "m-failed"]);
    run.assert_done();
    assert_eq!(run.stderr, "");
    let mut terminal = AtTerminal::start(account.command(&["redrive", "m-moved"]));
    terminal.wait_for(" of about 2");
    terminal.end().assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_asked_for_saved_and_gone() {
    let account = Account::new().await;
    let folder = tempfile::tempdir().unwrap();
    let saved = folder.path().join("dropped.jsonl");
    let path = saved.to_str().unwrap();
    let arguments = [
        "drop",
        "--state",
        "completed",
        "--key-from",
        "/order/id",
        "--save",
        path,
    ];
    account
        .dlq(&arguments)
        .assert_failed_with("--yes says that you mean it");
    account.assert_all_are_back();

    let mut asked = AtTerminal::start(account.command(&arguments));
    let url = account.sqs.url("orders-dlq");
    asked.wait_for(&format!(
        "Drop 2 messages of {url} for good (2 completed)? [y/N] "
    ));
    asked.write("n\n");
    asked.end().assert_failed_with("nothing was changed");
    account.assert_all_are_back();
    assert!(!saved.exists());

    let mut asked = AtTerminal::start(account.command(&arguments));
    asked.wait_for("[y/N] ");
    asked.write("yes\n");
    let run = asked.end();
    run.assert_done();
    assert_eq!(run.stdout, "dropped 2 messages\n");
    assert_eq!(account.queues().0, ["m-failed"]);
    let saved = std::fs::read_to_string(&saved).unwrap();
    let saved: Vec<Value> = saved
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(saved.len(), 2);
    assert_eq!(saved[0]["body"], r#"{"order":{"id":"o-2"}}"#);
    assert_eq!(saved[0]["attributes"]["tenant"]["text"], "seven");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_dropped_that_cannot_be_saved_or_is_not_there() {
    let account = Account::new().await;
    let nowhere = ["drop", "--all", "--yes", "--save", "/no/such/folder/file"];
    account
        .dlq(&nowhere)
        .assert_failed_with("nothing was dropped");
    account.assert_all_are_back();
    let run = account.dlq(&["drop", "--yes", "m-done", "m-none"]);
    run.assert_failed_with("m-none: not received");
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_at_the_question_puts_all_back() {
    let account = Account::new().await;
    let mut asked = AtTerminal::start(account.command(&["drop", "--all"]));
    asked.wait_for("[y/N] ");
    let process = nix::unistd::Pid::from_raw(asked.id().cast_signed());
    nix::sys::signal::kill(process, nix::sys::signal::SIGINT).unwrap();
    asked.end().assert_failed_with("interrupted");
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_message_holds_writes_to_the_terminal_but_text() {
    let account = Account::empty().await;
    let mut hostile = NewMessage::new("m-1", "\u{9b}2J\u{1b}[2J\r{}");
    let text = json!({"DataType": "String", "StringValue": "payments#\u{1b}]0;x\u{7}"});
    hostile
        .attributes
        .insert("sqs-once-reason".to_owned(), text.clone());
    hostile.attributes.insert("sqs-once-key".to_owned(), text);
    let now = SystemTime::now();
    account
        .sqs
        .queues()
        .send("orders-dlq", hostile, now)
        .unwrap();
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &["show", "m-1"],
        &["show", "m-1", "--json"],
        &["drop", "--all", "--yes"],
    ] {
        let run = account.dlq(arguments);
        run.assert_done();
        let is_text = |text: &str| text.chars().all(|char| char == '\n' || !char.is_control());
        assert!(is_text(&run.stdout), "{:?}", run.stdout);
        assert!(is_text(&run.stderr), "{:?}", run.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_not_there_is_said_with_what_the_credentials_need() {
    let account = Account::new().await;
    let mut command = command(&["dlq", "list", "--queue", "other"]);
    command.env("AWS_ENDPOINT_URL_SQS", account.sqs.endpoint());
    let run = Run::of(command.output().unwrap());
    run.assert_failed_with("sqs:GetQueueUrl");
}

#[test]
fn every_help_ends_with_examples() {
    for words in [
        &["dlq"][..],
        &["dlq", "list"],
        &["dlq", "show"],
        &["dlq", "redrive"],
        &["dlq", "drop"],
    ] {
        let run = Run::of(command(&[words, &["--help"]].concat()).output().unwrap());
        run.assert_done();
        let (_, examples) = run.stdout.split_once("Examples:\n").unwrap();
        assert!(examples.contains("cargo sqs-once dlq "), "{examples}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_all_names_both_queues_and_asks() {
    let account = Account::new().await;
    let run = account.dlq(&["redrive", "--all"]);
    run.assert_failed_with("there is no terminal to ask on: --yes says that you mean it");
    account.assert_all_are_back();
    let mut asked = AtTerminal::start(account.command(&["redrive", "--all"]));
    let (from, to) = (account.sqs.url("orders-dlq"), account.sqs.url("orders"));
    asked.wait_for(&format!("Send about 3 messages of {from} to {to}? [y/N] "));
    asked.write("n\n");
    asked.end().assert_failed_with("nothing was changed");
    account.assert_all_are_back();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_saved_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let account = Account::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dropped.jsonl");
    let save = ["drop", "m-done", "--yes", "--save", path.to_str().unwrap()];
    account.dlq(&save).assert_done();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_shown_can_do_more_to_a_terminal_than_show_itself() {
    let account = Account::empty().await;
    let odd = "a\u{1b}[2J\u{7f}\u{9b}31m\u{202e}\u{2066}\u{200e}\u{200f}\u{61c}z";
    {
        let mut queues = account.sqs.queues();
        let message = NewMessage::new("m-odd", odd);
        queues
            .send("orders-dlq", message, SystemTime::now())
            .unwrap();
    }
    let missing = account.dlq(&["show", "m-\u{9b}\u{202e}\u{1b}"]);
    missing.assert_failed_with("m-   : not received from the queue");
    let refused = account.dlq(&["show", "m-odd", "--\u{9b}\u{202e}\u{1b}"]);
    assert_eq!(refused.status, Some(2));
    assert!(
        refused.stderr.contains("unexpected argument '--  '"),
        "{}",
        refused.stderr
    );
    let json = account.dlq(&["show", "m-odd", "--json"]);
    assert_eq!(lines(&json)[0]["body"], odd, "JSON keeps what the text is");
    for run in [
        json,
        account.dlq(&["show", "m-odd"]),
        account.dlq(&["list", "--json"]),
        missing,
        refused,
    ] {
        let said = format!("{}{}", run.stdout, run.stderr);
        let acts = said.chars().find(|char| {
            let turns = ('\u{202a}'..='\u{202e}').contains(char)
                || ('\u{2066}'..='\u{2069}').contains(char)
                || ['\u{200e}', '\u{200f}', '\u{61c}'].contains(char);
            turns || char.is_control() && *char != '\n'
        });
        assert_eq!(acts, None, "{said:?}");
    }
}
