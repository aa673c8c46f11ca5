//! Runs `cargo sqs-once key` as a user does, on a table in an embedded DynamoDB.

use crate::project::{Run, Runs};
use crate::support::{AtTerminal, Log, Table, id};
use serde_json::{Value, json};
use sqs_once::BusinessKey;
use sqs_once::key::{KeySecret, Namespace};
use sqs_once_local::REGION;
use std::process::Stdio;
use std::time::SystemTime;
use tokio::net::TcpListener;

const OWNER: &str = "000102030405060708090a0b0c0d0e0f";

/// The time in so many hours, in milliseconds since 1970.
fn hour(hours: i64) -> u64 {
    let since_epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let now = u64::try_from(since_epoch.as_millis()).unwrap();
    now.saturating_add_signed(hours * 60 * 60 * 1000)
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

async fn with(items: impl IntoIterator<Item = Value>) -> Table {
    Table::with("key", items).await
}

/// A table with a completed key, and the id of its item.
async fn with_order() -> (Table, String) {
    let order = id("order-42");
    (with([completed(&order)]).await, order)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completed_key_shows_all_that_is_known_but_the_result() {
    let (table, order) = with_order().await;
    let run = table.done(&["show", "order-42"]);
    run.says("the key order-42 (text) in the namespace payments");
    for part in [
        &format!("key         {order}\n"),
        "state       completed: done; its messages are duplicates\n",
        ", 1h ago\n",
        &format!("owner       {OWNER}\n"),
        "data        8 bytes, which --data shows",
    ] {
        run.shows(part);
    }
    assert!(!run.stdout.contains("secret"));
    assert!(!run.stdout.contains("lease"), "{}", run.stdout);
    let with_data = table.run(&["show", "--data", "order-42"]);
    with_data.shows("\"secret\"");
    // The start of an id, as log lines show it, needs no namespace.
    let mut command = table.command(&["show", "--format=json", &order[..21]]);
    let shown = Run::of(command.env_remove("SQS_ONCE_NAMESPACE")).one();
    assert_eq!(shown["id"], order);
    assert_eq!(shown["state"], "completed");
    assert_eq!(shown["written_by"], "sqs-once");
    assert_eq!(shown["data"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_powertools_are_marked() {
    let id = "payments.handler#0123456789abcdef0123456789abcdef";
    let item = json!({"id": {"S": id}, "status": {"S": "COMPLETED"}, "expiration": {"N": "1"}});
    let table = with([item]).await;
    let run = table.done(&["show", id]);
    run.shows("state       expired");
    run.shows("Powertools");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named() {
    let table = with([]).await;
    table.fails(&["show", "order-42"], "the table does not have this key");
    let without =
        |variable: &str| Run::of(table.command(&["show", "order-42"]).env_remove(variable));
    without("SQS_ONCE_TABLE").assert_failed_with("Give --table, or set SQS_ONCE_TABLE");
    without("SQS_ONCE_NAMESPACE").assert_failed_with("give --namespace");
    without("AWS_REGION").assert_failed_with("set AWS_REGION");
    let other = ["show", "--table", "other", "order-42"];
    table.fails(&other, "check --table, AWS_REGION and AWS_PROFILE");
    let many = "`i:many` is not an integer; text that starts like this is written";
    table.fails(&["show", "i:many"], many);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_listed_by_state() {
    let table = with([
        live(&id("a")),
        item(&id("b"), "INPROGRESS", hour(-1), hour(24)),
        item(&id("c"), "INPROGRESS", 0, hour(24)),
        completed(&id("d")),
        item(&id("e"), "COMPLETED", hour(-9), hour(-8)),
        item(&id("f"), "ODD", hour(-9), hour(-8)),
        json!({"id": {"S": "payments#g"}, "status": {"N": "1"}}),
        // Another program's item.
        json!({"id": {"S": "payments#customer-7"}, "name": {"S": "Ada"}}),
        live("other#h"),
    ])
    .await;
    let all = "completed expired in-progress lapsed released unknown unreadable";
    for (arguments, expected) in [
        (&[][..], all),
        (&["--namespace", "other"], "in-progress"),
        (&["--state", "lapsed"], "lapsed"),
        (&["--state", "completed"], "completed"),
        (
            &["--state", "expired", "--state", "released"],
            "expired released",
        ),
    ] {
        let run = table.done(&[&["list", "--format=json"], arguments].concat());
        let lines = run.json();
        let states = lines.iter().map(|line| line["state"].as_str().unwrap());
        let mut states: Vec<_> = states.collect();
        states.sort();
        assert_eq!(states.join(" "), expected, "{arguments:?}");
    }
    let run = table.run(&["list", "--limit", "2"]);
    assert_eq!(run.stdout.lines().count(), 2);
    run.says("these are the first 2");
    let run = table.done(&["list", "--namespace", "nobody"]);
    assert_eq!((&*run.stdout, &*run.stderr), ("", "no such keys\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_reading_a_list_stops_it_without_an_error() {
    let table = with((0..50).map(|order| live(&id(&order.to_string())))).await;
    let mut command = table.command(&["list", "--limit", "10"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let run = Run::ended(child.wait_with_output().unwrap());
    run.assert_done();
    assert!(!run.stderr.contains("error"), "{}", run.stderr);
    assert!(!run.stderr.contains("there may be more"), "{}", run.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_a_table_holds_writes_to_the_terminal_but_text() {
    let name = "payments#\u{1b}[2J\r\u{7}";
    let mut hostile = live(name);
    hostile["status"] = json!({"S": "\u{1b}]0;x\u{7}"});
    hostile["data"] = json!({"S": "\u{1b}[1m\u{9b}"});
    let mut found = live("payments#x:1");
    found["data"] = hostile["data"].clone();
    let table = with([hostile, found]).await;
    for arguments in [
        &["list"][..],
        &["list", "--format=json"],
        &["show", "--data", name, "--namespace", "x"],
        &["show", "--format=json", "--data", "payments#x:1"],
    ] {
        table.run(arguments).assert_is_text();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_nothing_is_changed_unless_told() {
    let (table, order) = with_order().await;
    let before = table.item(&order);
    for action in ["forget", "complete"] {
        table.fails(&[action, "order-42"], "confirm with --yes");
    }
    assert_eq!(table.item(&order), before);

    let run = table.done(&["forget", "--yes", "order-42"]);
    let next = "its next message runs, as a first attempt with the idempotency token";
    let forgot = format!("forgot {order}: {next}");
    assert!(run.stdout.starts_with(&forgot), "{}", run.stdout);
    assert_eq!(table.item(&order)["status"]["S"], "INPROGRESS");
    assert_eq!(table.item(&order)["in_progress_expiration"]["N"], "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_lease_is_respected_unless_told() {
    let order = id("order-42");
    let table = with([live(&order)]).await;
    for action in ["forget", "complete"] {
        table.fails(
            &[action, "--yes", "order-42"],
            "a worker is processing this key until 2",
        );
    }
    assert_eq!(table.item(&order)["owner"]["S"], OWNER);
    table.done(&["forget", "--yes", "--even-in-progress", "order-42"]);
    assert_ne!(table.item(&order)["owner"]["S"], OWNER);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_is_told_and_logged_with_what_it_was_before() {
    let (table, order) = with_order().await;
    let file = Log::new();
    let log = file.name();
    let run = table.done(&["forget", "--yes", "--format=json", "--log", log, "order-42"]);
    let line = run.one();
    assert_eq!(line["action"], "forget");
    assert_eq!(line["id"], order);
    assert_eq!(line["before"]["state"], "completed");
    assert_eq!(line["before"]["owner"], OWNER);
    assert_eq!(line["after"]["state"], "released");
    let fence = |when: &str| line[when]["fence"].as_u64().unwrap();
    assert!(fence("after") > fence("before"), "{line}");
    assert_eq!(line["region"], REGION);
    assert_eq!(line["table"], "sqs-once");
    assert!(line["at"].is_string());

    let complete = [
        "complete",
        "--yes",
        "--format=json",
        "--log",
        log,
        "order-42",
    ];
    let run = table.done(&complete);
    assert_eq!(file.lines(), [line, run.one()]);

    let nowhere = ["forget", "--yes", "--log", "/no/such/file", "order-42"];
    table.fails(&nowhere, "nothing was changed");
    assert_eq!(table.item(&order)["status"]["S"], "COMPLETED");
}

/// So a process that dies after a change has written its line.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_line_cannot_be_written_is_not_made() {
    let (table, order) = with_order().await;
    let before = table.item(&order);
    table.fails(
        &["forget", "--yes", "--log", "/dev/full", "order-42"],
        "the log /dev/full can't be written: nothing more was changed",
    );
    assert_eq!(table.item(&order), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_is_not_a_key() {
    let breaker = "breaker#payments";
    let key = format!("breaker#{}", "0".repeat(64));
    let table = with([live(breaker), completed(&key)]).await;
    for arguments in [&["show"][..], &["forget", "--yes"], &["complete", "--yes"]] {
        table.fails(
            &[arguments, &[breaker]].concat(),
            "use `cargo sqs-once breaker show payments`",
        );
    }
    assert_eq!(table.item(breaker)["owner"]["S"], OWNER);
    // A consumer may have this namespace.
    let list = ["list", "--namespace", "breaker", "--format=json"];
    assert_eq!(table.run(&list).one()["id"], key);
    table.done(&["show", &key]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_names_the_table_its_region_and_its_account() {
    let (table, _) = with_order().await;
    let unnamed = "an account that the credentials do not name";
    for (action, account, named) in [
        ("forget", Some("123456789012"), "account 123456789012"),
        ("complete", Some("123456789012"), "account 123456789012"),
        ("forget", None, unnamed),
    ] {
        let mut command = table.command(&[action, "order-42"]);
        command.envs(account.map(|account| ("AWS_ACCOUNT_ID", account)));
        let run = AtTerminal::start(command).answer("n\n");
        run.assert_failed_with("nothing was changed");
        let verb = ["Forget it?", "Complete it?"][usize::from(action == "complete")];
        run.says(&format!("table sqs-once, {REGION}, {named}: {verb}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_knows_the_end_of_is_logged_as_such() {
    let (table, _) = with_order().await;
    let log = Log::new();
    let mut asked = table.asked(&["forget", "--log", log.name(), "order-42"]);
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
    let run = asked.answer("y\n");
    run.assert_failed_with("the store did not answer");
    let [before, after] = log.lines().try_into().unwrap();
    assert_eq!(before["before"]["state"], "completed");
    assert_eq!(before["after"]["state"], "released");
    assert_eq!(before["error"], Value::Null);
    assert_eq!(after["before"], before["before"]);
    assert_eq!(after["after"], Value::Null);
    assert!(after["error"].as_str().unwrap().contains("did not answer"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_never_came_is_completed_under_one_name_only() {
    let table = with([]).await;
    let not_there = "the table does not have this key";
    for (action, key, message) in [
        ("forget", "order-42", not_there),
        ("complete", "42", "this name matches 2 keys"),
        ("complete", "payments#0123456789ab", not_there),
    ] {
        table.fails(&[action, "--yes", key], message);
    }
    let hashed = ["complete", "--yes", "--ids", "hashed"];
    table.fails(&[&hashed[..], &["42"]].concat(), "this name matches 2 keys");
    table.done(&[&hashed[..], &["--for", "90d", "s:42"]].concat());
    let expires = &table.item(&id("42"))["expiration"]["N"];
    let expires: u64 = expires.as_str().unwrap().parse().unwrap();
    assert!((hour(89 * 24)..hour(91 * 24)).contains(&(expires * 1000)));
    for whole in [&*id("order-42"), "payments#s:order-42"] {
        table.done(&["complete", "--yes", whole]);
        assert_eq!(table.item(whole)["status"]["S"], "COMPLETED");
    }
}

/// A consumer reads the key in the form of its own ids only.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_never_came_is_completed_in_the_form_that_its_consumer_reads() {
    let hashed = &*id("order-42");
    let readable = "payments#s:order-42";
    let table = with([]).await;
    let complete = ["complete", "--yes", "order-42"];
    let forms = format!("--ids hashed, for {hashed}, or --ids readable, for {readable}");
    let run = table.fails(&complete, &forms);
    run.says("give --key-secret-file");
    table.fails(&["show", "order-42"], "the table does not have this key");

    // An item in the other form is of another key.
    for (form, written) in [("readable", readable), ("hashed", hashed)] {
        table.done(&[&complete[..], &["--ids", form]].concat());
        assert_eq!(table.item(written)["status"]["S"], "COMPLETED");
    }
    // Without the form, an item that exists is the one.
    let table = with([item(readable, "INPROGRESS", 0, hour(24))]).await;
    table.done(&complete);
    assert_eq!(table.item(readable)["status"]["S"], "COMPLETED");
    assert_eq!(table.item(hashed), Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_asked_and_only_yes_is_yes_and_an_interrupt_is_a_no() {
    let (table, order) = with_order().await;
    for answer in ["n\n", "\n", "yep\n", "\u{4}"] {
        let run = table.asked(&["forget", "order-42"]).answer(answer);
        run.assert_failed_with("nothing was changed");
        run.says("state       completed");
        assert_eq!(table.item(&order)["owner"]["S"], OWNER);
    }
    let run = table.asked(&["forget", "order-42"]).interrupt();
    run.assert_failed_with("interrupted");
    assert_eq!(table.item(&order)["owner"]["S"], OWNER);
    let run = table.asked(&["forget", "order-42"]).answer("y\n");
    run.assert_done();
    assert_ne!(table.item(&order)["owner"]["S"], OWNER);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_changed_since_it_was_shown_is_shown_again_and_left_alone() {
    let (table, order) = with_order().await;
    let mut asked = table.asked(&["forget", "order-42"]);
    asked.wait_for("[y/N] ");
    let mut taken = live(&order);
    let other = "ffffffffffffffffffffffffffffffff";
    taken["owner"] = json!({"S": other});
    table.put(taken.clone());
    let run = asked.answer("y\n");
    run.assert_failed_with("the key has changed since it was shown: nothing was written");
    let (_, after) = run.stderr.split_once("[y/N] ").unwrap();
    assert!(after.contains(other), "{after}");
    assert_eq!(table.item(&order), taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_hashed_with_a_secret_is_found_with_the_secret_alone() {
    let secret = "the secret of these tests";
    let keyed = Namespace::new("payments").unwrap();
    let keyed = keyed.key_secret(KeySecret::new(secret).unwrap());
    let order = keyed.item_id(&BusinessKey::new("order-42").unwrap());
    let table = with([completed(order.as_str())]).await;
    let run = table.fails(&["show", "order-42"], "the table does not have this key");
    run.says("If its ids are hashed with a secret, give --key-secret-file");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret");
    let show = [
        "show",
        "order-42",
        "--key-secret-file",
        path.to_str().unwrap(),
    ];
    let with_secret = || table.run(&show);
    for end in ["", "\n", "\r\n"] {
        std::fs::write(&path, format!("{secret}{end}")).unwrap();
        let run = with_secret();
        run.assert_done();
        run.shows(order.as_str());
    }
    std::fs::write(&path, "hunter2").unwrap();
    let run = with_secret();
    run.says("a secret of 7 bytes");
    assert!(!run.stderr.contains("hunter2"), "{}", run.stderr);
    std::fs::remove_file(&path).unwrap();
    with_secret().says("--key-secret-file");
}
