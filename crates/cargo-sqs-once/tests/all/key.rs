//! Runs `cargo sqs-once key` as a user does, on a table in an embedded DynamoDB.

use crate::project::Run;
use crate::support::{AtTerminal, command, dynamodb};
use serde_json::{Value, json};
use sqs_once::BusinessKey;
use sqs_once::key::{KeySecret, Namespace};
use sqs_once_local::{LocalDynamoDb, REGION};
use std::process::{Command, Stdio};
use std::time::SystemTime;
use tokio::net::TcpListener;

const OWNER: &str = "000102030405060708090a0b0c0d0e0f";

fn now_ms() -> u64 {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    u64::try_from(since_epoch.as_millis()).unwrap()
}

fn hour(hours: i64) -> u64 {
    now_ms().saturating_add_signed(hours * 60 * 60 * 1000)
}

fn id(key: &str) -> String {
    let namespace = Namespace::new("payments").unwrap();
    namespace
        .item_id(&BusinessKey::new(key).unwrap())
        .to_string()
}

/// An item as a consumer writes it, first claimed an hour ago.
fn item(id: &str, status: &str, lease_until: u64, expires: u64) -> Value {
    json!({
        "id": {"S": id}, "status": {"S": status}, "owner": {"S": OWNER},
        "fence": {"N": hour(-1).to_string()},
        "in_progress_expiration": {"N": lease_until.to_string()},
        "expiration": {"N": (expires / 1000).to_string()},
        "data": {"S": "\"secret\""},
    })
}

fn completed(id: &str) -> Value {
    item(id, "COMPLETED", hour(-1), hour(24))
}

fn live(id: &str) -> Value {
    item(id, "INPROGRESS", hour(1), hour(24))
}

struct Table {
    dynamodb: LocalDynamoDb,
}

impl Table {
    async fn with(items: impl IntoIterator<Item = Value>) -> Self {
        let table = Self {
            dynamodb: dynamodb().await,
        };
        items.into_iter().for_each(|item| table.put(item));
        table
    }

    fn put(&self, item: Value) {
        self.dynamodb.put_item("sqs-once", item).unwrap();
    }

    fn item(&self, id: &str) -> Value {
        let key = json!({"id": {"S": id}});
        let item = self.dynamodb.item("sqs-once", key).unwrap();
        item.unwrap_or_default()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(&[&["sqs-once", "key"], arguments].concat());
        command
            .env("AWS_ENDPOINT_URL_DYNAMODB", self.dynamodb.endpoint())
            .env("SQS_ONCE_TABLE", "sqs-once")
            .env("SQS_ONCE_NAMESPACE", "payments")
            .stdin(Stdio::null());
        command
    }

    fn key(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments).output().unwrap())
    }
}

fn lines(run: &Run) -> Vec<Value> {
    let lines = run.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_key_shows_all_that_is_known_but_the_result() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    let run = table.key(&["show", "order-42"]);
    run.assert_done();
    for part in [
        &format!("key         {order}\n"),
        "state       completed: done; its messages are duplicates\n",
        ", 1h ago\n",
        &format!("owner       {OWNER}\n"),
        "data        8 bytes, which --data shows",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("secret"));
    assert!(!run.stdout.contains("lease"), "{}", run.stdout);
    let run = table.key(&["show", "--data", "order-42"]);
    assert!(run.stdout.contains("\"secret\""), "{}", run.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_found_by_a_log_lines_prefix_without_a_namespace() {
    let order = id("order-42");
    let table = Table::with([live(&order), live(&id("order-43"))]).await;
    let mut command = table.command(&["show", "--json", &order[..21]]);
    command.env_remove("SQS_ONCE_NAMESPACE");
    let run = Run::of(command.output().unwrap());
    run.assert_done();
    let [shown] = lines(&run).try_into().unwrap();
    assert_eq!(shown["id"], order);
    assert_eq!(shown["state"], "in-progress");
    assert_eq!(shown["owner"], OWNER);
    assert_eq!(shown["written_by"], "sqs-once");
    assert_eq!(shown["data"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_powertools_are_marked() {
    let id = "payments.handler#0123456789abcdef0123456789abcdef";
    let item = json!({"id": {"S": id}, "status": {"S": "COMPLETED"}, "expiration": {"N": "1"}});
    let table = Table::with([item]).await;
    let run = table.key(&["show", id]);
    run.assert_done();
    assert!(run.stdout.contains("state       expired"), "{}", run.stdout);
    assert!(run.stdout.contains("Powertools"), "{}", run.stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named() {
    let table = Table::with([]).await;
    table
        .key(&["show", "order-42"])
        .assert_failed_with("nothing is known of this key");
    let without = |variable: &str| {
        let mut command = table.command(&["show", "order-42"]);
        Run::of(command.env_remove(variable).output().unwrap())
    };
    without("SQS_ONCE_TABLE").assert_failed_with("Give --table, or set SQS_ONCE_TABLE");
    without("SQS_ONCE_NAMESPACE").assert_failed_with("give --namespace");
    without("AWS_REGION").assert_failed_with("give --region");
    let run = table.key(&["show", "--table", "other", "order-42"]);
    run.assert_failed_with("check --table, --region and --profile");
    let run = table.key(&["show", "i:many"]);
    run.assert_failed_with(
        "`i:many` is not an integer; text that starts like this is written `s:i:many`",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_by_state() {
    let table = Table::with([
        live(&id("a")),
        item(&id("b"), "INPROGRESS", hour(-1), hour(24)),
        item(&id("c"), "INPROGRESS", 0, hour(24)),
        completed(&id("d")),
        item(&id("e"), "COMPLETED", hour(-9), hour(-8)),
        item(&id("f"), "ODD", hour(-9), hour(-8)),
        json!({"id": {"S": "payments#g"}, "status": {"N": "1"}}),
        live("other#h"),
    ])
    .await;
    let states = |arguments: &[&str]| {
        let run = table.key(&[&["list", "--json"], arguments].concat());
        run.assert_done();
        let lines = lines(&run);
        let mut states: Vec<_> = lines
            .iter()
            .map(|line| line["state"].as_str().unwrap().to_owned())
            .collect();
        states.sort();
        states.join(" ")
    };
    assert_eq!(
        states(&[]),
        "completed expired in-progress lapsed released unknown unreadable"
    );
    assert_eq!(states(&["--namespace", "other"]), "in-progress");
    assert_eq!(states(&["--status", "lapsed"]), "lapsed");
    assert_eq!(states(&["--status", "completed"]), "completed");
    assert_eq!(
        states(&["--status", "expired", "--status", "released"]),
        "expired released"
    );
    let run = table.key(&["list", "--limit", "2"]);
    assert_eq!(run.stdout.lines().count(), 2);
    assert!(
        run.stderr.contains("these are the first 2"),
        "{}",
        run.stderr
    );
    let run = table.key(&["list", "--namespace", "nobody"]);
    run.assert_done();
    assert_eq!((&*run.stdout, &*run.stderr), ("", "no such keys\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_reading_a_list_stops_it_without_an_error() {
    let table = Table::with((0..50).map(|order| live(&id(&order.to_string())))).await;
    let mut command = table.command(&["list", "--limit", "10"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let run = Run::of(child.wait_with_output().unwrap());
    run.assert_done();
    assert!(!run.stderr.contains("error"), "{}", run.stderr);
    let went_on = run.stderr.contains("there may be more");
    assert!(!went_on, "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_table_holds_writes_to_the_terminal_but_text() {
    let mut hostile = live("payments#\u{1b}[2J\r\u{7}");
    hostile["status"] = json!({"S": "\u{1b}]0;x\u{7}"});
    hostile["data"] = json!({"S": "\u{1b}[1m\u{9b}"});
    let mut found = live("payments#x:1");
    found["data"] = hostile["data"].clone();
    let table = Table::with([hostile, found]).await;
    for arguments in [
        &["list"][..],
        &["list", "--json"],
        &[
            "show",
            "--data",
            "payments#\u{1b}[2J\r\u{7}",
            "--namespace",
            "x",
        ],
        &["show", "--json", "--data", "payments#x:1"],
    ] {
        let run = table.key(arguments);
        let is_text = |text: &str| text.chars().all(|char| char == '\n' || !char.is_control());
        assert!(is_text(&run.stdout), "{:?}", run.stdout);
        assert!(is_text(&run.stderr), "{:?}", run.stderr);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_nothing_is_changed_unless_told() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    for action in ["forget", "complete"] {
        let run = table.key(&[action, "order-42"]);
        run.assert_failed_with("--yes says that you mean it");
    }
    assert_eq!(table.item(&order), completed_again(&table, &order));

    let run = table.key(&["forget", "--yes", "order-42"]);
    run.assert_done();
    assert_eq!(
        run.stdout,
        format!("forgot {order}: its next message runs\n")
    );
    assert_eq!(table.item(&order)["status"]["S"], "INPROGRESS");
    assert_eq!(table.item(&order)["in_progress_expiration"]["N"], "0");
}

/// The expected item. Copies the times from the table, because they vary.
fn completed_again(table: &Table, order: &str) -> Value {
    let mut item = completed(order);
    let there = table.item(order);
    for moment in ["fence", "in_progress_expiration", "expiration"] {
        item[moment] = there[moment].clone();
    }
    item
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_lease_is_respected_unless_told() {
    let order = id("order-42");
    let table = Table::with([live(&order)]).await;
    for action in ["forget", "complete"] {
        let run = table.key(&[action, "--yes", "order-42"]);
        run.assert_failed_with("somebody is working on this key until 2");
    }
    assert_eq!(table.item(&order)["owner"]["S"], OWNER);
    let run = table.key(&["forget", "--yes", "--even-in-progress", "order-42"]);
    run.assert_done();
    assert_ne!(table.item(&order)["owner"]["S"], OWNER);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_told_and_logged_with_what_it_was_before() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("changes.jsonl");
    let log = log.to_str().unwrap();
    let run = table.key(&["forget", "--yes", "--json", "--log", log, "order-42"]);
    run.assert_done();
    let [line] = lines(&run).try_into().unwrap();
    assert_eq!(line["action"], "forget");
    assert_eq!(line["id"], order);
    assert_eq!(line["before"]["state"], "completed");
    assert_eq!(line["before"]["owner"], OWNER);
    assert_eq!(line["after"]["state"], "released");
    assert_eq!(line["after"]["fence"], line["before"]["fence"]);

    let run = table.key(&["complete", "--yes", "--json", "--log", log, "order-42"]);
    run.assert_done();
    let logged = std::fs::read_to_string(log).unwrap();
    let [first, second] = logged.lines().collect::<Vec<_>>().try_into().unwrap();
    assert_eq!(serde_json::from_str::<Value>(first).unwrap(), line);
    assert_eq!(format!("{second}\n"), run.stdout);

    let nowhere = folder.path().join("no/such/folder");
    let arguments = [
        "forget",
        "--yes",
        "--log",
        nowhere.to_str().unwrap(),
        "order-42",
    ];
    table
        .key(&arguments)
        .assert_failed_with("nothing was changed");
    assert_eq!(table.item(&order)["status"]["S"], "COMPLETED");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_log_of_changes_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let table = Table::with([completed(&id("order-42"))]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("changes.jsonl");
    let arguments = ["forget", "--yes", "--log", log.to_str().unwrap()];
    table
        .key(&[&arguments[..], &["order-42"]].concat())
        .assert_done();
    let mode = std::fs::metadata(&log).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_names_the_table_its_region_and_its_account() {
    let table = Table::with([completed(&id("order-42"))]).await;
    for (action, account, named) in [
        (
            "forget",
            Some("123456789012"),
            "account 123456789012: Forget it?",
        ),
        (
            "complete",
            Some("123456789012"),
            "account 123456789012: Complete it?",
        ),
        (
            "forget",
            None,
            "an account that the credentials do not name: Forget it?",
        ),
    ] {
        let mut command = table.command(&[action, "order-42"]);
        command.envs(account.map(|account| ("AWS_ACCOUNT_ID", account)));
        let mut asked = AtTerminal::start(command);
        asked.wait_for("[y/N] ");
        let question = format!("table sqs-once, {REGION}, {named}");
        assert!(asked.shown.contains(&question), "{}", asked.shown);
        asked.write("n\n");
        asked.end().assert_failed_with("nothing was changed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_knows_the_end_of_is_logged_as_such() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("changes.jsonl");
    let arguments = ["forget", "--log", log.to_str().unwrap(), "order-42"];
    let mut asked = AtTerminal::start(table.command(&arguments));
    asked.wait_for("[y/N] ");
    let address = table.dynamodb.endpoint().replace("http://", "");
    table.dynamodb.stop().await;
    // Keep the address bound, or another test's server could take it and answer.
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        loop {
            drop(listener.accept().await);
        }
    });
    asked.write("y\n");
    let run = asked.end();
    run.assert_failed_with("the store did not answer");
    let logged: Value = serde_json::from_str(&std::fs::read_to_string(log).unwrap()).unwrap();
    assert_eq!(logged["before"]["state"], "completed");
    assert_eq!(logged["after"], Value::Null);
    assert!(logged["error"].as_str().unwrap().contains("did not answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_never_came_is_completed_under_one_name_only() {
    let table = Table::with([]).await;
    let run = table.key(&["forget", "--yes", "order-42"]);
    run.assert_failed_with("nothing is known of this key");
    let run = table.key(&["complete", "--yes", "42"]);
    run.assert_failed_with("this may be 2 keys");
    let run = table.key(&["complete", "--yes", "payments#0123456789ab"]);
    run.assert_failed_with("nothing is known of this key");
    let run = table.key(&["complete", "--yes", "--retention", "90d", "s:42"]);
    run.assert_done();
    let expires = &table.item(&id("42"))["expiration"]["N"];
    let expires: u64 = expires.as_str().unwrap().parse().unwrap();
    assert!((hour(89 * 24)..hour(91 * 24)).contains(&(expires * 1000)));
    let run = table.key(&["complete", "--yes", "--readable-keys", "order-42"]);
    run.assert_done();
    assert_eq!(
        table.item("payments#s:order-42")["status"]["S"],
        "COMPLETED"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_asked_and_only_yes_is_yes() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    for answer in ["n\n", "\n", "yep\n", "\u{4}"] {
        let mut asked = AtTerminal::start(table.command(&["forget", "order-42"]));
        asked.wait_for("[y/N] ");
        assert!(
            asked.shown.contains("state       completed"),
            "{}",
            asked.shown
        );
        asked.write(answer);
        asked.end().assert_failed_with("nothing was changed");
        assert_eq!(table.item(&order)["owner"]["S"], OWNER);
    }
    let mut asked = AtTerminal::start(table.command(&["forget", "order-42"]));
    asked.wait_for("[y/N] ");
    asked.write("y\n");
    asked.end().assert_done();
    assert_ne!(table.item(&order)["owner"]["S"], OWNER);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_at_the_question_is_a_no() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    let mut asked = AtTerminal::start(table.command(&["forget", "order-42"]));
    asked.wait_for("[y/N] ");
    let process = nix::unistd::Pid::from_raw(asked.id().cast_signed());
    nix::sys::signal::kill(process, nix::sys::signal::SIGINT).unwrap();
    asked.end().assert_failed_with("interrupted");
    assert_eq!(table.item(&order)["owner"]["S"], OWNER);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_since_it_was_shown_is_shown_again_and_left_alone() {
    let order = id("order-42");
    let table = Table::with([completed(&order)]).await;
    let mut asked = AtTerminal::start(table.command(&["forget", "order-42"]));
    asked.wait_for("[y/N] ");
    let mut taken = live(&order);
    taken["owner"] = json!({"S": "ffffffffffffffffffffffffffffffff"});
    table.put(taken.clone());
    asked.write("y\n");
    let run = asked.end();
    run.assert_failed_with("the key has changed since it was shown: nothing was written");
    let (_, after) = run.stderr.split_once("[y/N] ").unwrap();
    assert!(
        after.contains("ffffffffffffffffffffffffffffffff"),
        "{after}"
    );
    assert_eq!(table.item(&order), taken);
}

#[test]
fn every_help_ends_with_examples() {
    for words in [
        &["key"][..],
        &["key", "show"],
        &["key", "list"],
        &["key", "forget"],
        &["key", "complete"],
    ] {
        for help in ["-h", "--help"] {
            let run = Run::of(command(&[words, &[help]].concat()).output().unwrap());
            run.assert_done();
            let (_, examples) = run.stdout.split_once("Examples:\n").unwrap();
            assert!(examples.contains("cargo sqs-once key "), "{examples}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_hashed_with_a_secret_is_found_with_the_secret_alone() {
    let secret = "the secret of these tests";
    let keyed = Namespace::new("payments").unwrap();
    let keyed = keyed.key_secret(KeySecret::new(secret).unwrap());
    let order = keyed.item_id(&BusinessKey::new("order-42").unwrap());
    let table = Table::with([completed(order.as_str())]).await;
    let run = table.key(&["show", "order-42"]);
    assert!(!run.stdout.contains(order.as_str()), "{}", run.stdout);

    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for text in [
        secret.to_owned(),
        format!("{secret}\n"),
        format!("{secret}\r\n"),
    ] {
        let run = table.key(&[
            "show",
            "--key-secret-file",
            &file("secret", &text),
            "order-42",
        ]);
        run.assert_done();
        assert!(run.stdout.contains(order.as_str()), "{}", run.stdout);
    }
    let run = table.key(&[
        "show",
        "--key-secret-file",
        &file("short", "hunter2"),
        "order-42",
    ]);
    assert!(run.stderr.contains("a secret of 7 bytes"), "{}", run.stderr);
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
    let nowhere = folder.path().join("nowhere");
    let run = table.key(&[
        "show",
        "--key-secret-file",
        nowhere.to_str().unwrap(),
        "order-42",
    ]);
    assert!(run.stderr.contains("--key-secret-file"), "{}", run.stderr);
}
