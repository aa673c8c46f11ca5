//! Runs `cargo sqs-once dlq` as a user does, on queues and a table in this process.

use crate::project::{Run, Runs, command};
use crate::support::{AtTerminal, Log, dynamodb, id, on_table};
use serde_json::{Value, json};
use sqs_once::key::Fingerprint;
use sqs_once_local::{LocalDynamoDb, LocalSqs, NewMessage, QueueSettings, Queues, Redrive};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// `orders` and its dead letters: failed ones, completed ones, and ones that SQS itself moved.
struct Account {
    sqs: LocalSqs,
    dynamodb: LocalDynamoDb,
}

impl Account {
    async fn empty() -> Self {
        let mut queues = Queues::default();
        let default = QueueSettings::default;
        queues.create("orders-dlq", default()).unwrap();
        let settings = QueueSettings {
            redrive: Some(Redrive {
                to: "orders-dlq".to_owned(),
                max_receive_count: 3,
            }),
            ..default()
        };
        queues.create("orders", settings).unwrap();
        Self {
            sqs: LocalSqs::start(queues).await.unwrap(),
            dynamodb: dynamodb().await,
        }
    }

    async fn new() -> Self {
        let account = Self::empty().await;
        for (message, order, says_its_key, status) in [
            ("m-failed", "o-1", true, "INPROGRESS"),
            ("m-done", "o-2", true, "COMPLETED"),
            ("m-moved", "o-3", false, "COMPLETED"),
        ] {
            let body = json!({"order": {"id": order}}).to_string();
            let item = json!({
                "id": {"S": id(order)}, "status": {"S": status}, "in_progress_expiration": {"N": "0"},
                "validation": {"S": Fingerprint::from_body(&body).as_str()},
            });
            account.dynamodb.put_item("sqs-once", item).unwrap();
            let mut message = NewMessage::new(message, body);
            if says_its_key {
                message.attributes = texts(&[
                    ("tenant", "seven"),
                    ("sqs-once-key", &id(order)),
                    ("sqs-once-reason", "the card was refused"),
                ]);
            }
            account.put("orders-dlq", message);
        }
        account
    }

    fn create(&self, queue: &str) {
        let created = self.sqs.queues().create(queue, QueueSettings::default());
        created.unwrap();
    }

    fn put(&self, queue: &str, message: NewMessage) {
        let sent = self.sqs.queues().send(queue, message, SystemTime::now());
        sent.unwrap();
    }

    /// Makes SQS move a message of this id.
    fn receive_too_often(&self, id: &str) {
        self.put("orders", NewMessage::new(id, "{}"));
        for _ in 0..4 {
            let now = SystemTime::now();
            let mut queues = self.sqs.queues();
            for received in queues.receive("orders", 1, now).unwrap() {
                let handle = &received.receipt_handle;
                let shown = queues.change_visibility("orders", handle, Duration::ZERO, now);
                shown.unwrap();
            }
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = on_table(&self.dynamodb, &[&["dlq"], arguments].concat());
        command
            .args(["--queue", "orders-dlq"])
            .env("AWS_ENDPOINT_URL_SQS", self.sqs.endpoint());
        command
    }

    /// The command for another queue, without a table.
    fn on(&self, queue: &str, arguments: &[&str]) -> Command {
        let mut command = command(&[&["dlq"], arguments, &["--queue", queue]].concat());
        command.env("AWS_ENDPOINT_URL_SQS", self.sqs.endpoint());
        command
    }

    fn asked(&self, arguments: &[&str]) -> AtTerminal {
        AtTerminal::start(self.command(arguments))
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

    /// Checks that a command fails with this message and leaves all messages.
    #[track_caller]
    fn assert_refuses(&self, arguments: &[&str], message: &str) {
        self.fails(arguments, message);
        self.assert_all_are_back();
    }

    #[track_caller]
    fn assert_all_are_back(&self) {
        assert_eq!(self.queues().0, ["m-done", "m-failed", "m-moved"]);
        let in_flight = self.sqs.queues().in_flight("orders-dlq", SystemTime::now());
        assert_eq!(in_flight.unwrap(), 0);
    }
}

impl Runs for Account {
    fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments))
    }
}

fn texts(attributes: &[(&str, &str)]) -> serde_json::Map<String, Value> {
    let attributes = attributes.iter().map(|(name, value)| {
        let value = json!({"DataType": "String", "StringValue": value});
        ((*name).to_owned(), value)
    });
    attributes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_with_what_the_table_knows_of_them_and_put_back() {
    let account = Account::new().await;
    let run = account.done(&["list", "--all"]);
    let state_of = |run: &Run, message: &str| {
        let mut lines = run.stdout.lines();
        let line = lines.find(|line| line.contains(message)).unwrap();
        line.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(state_of(&run, "m-failed"), "failed");
    assert_eq!(state_of(&run, "m-done"), "completed");
    assert_eq!(state_of(&run, "m-moved"), "unknown-key");
    run.shows("the card was refused");
    account.assert_all_are_back();

    let run = account.run(&["list", "--all", "--key-from", "/order/id"]);
    assert_eq!(state_of(&run, "m-moved"), "completed");
    let failed = ["list", "--all", "--format=json", "--state", "failed"];
    let line = account.run(&failed).one();
    assert_eq!(line["id"], "m-failed");
    assert_eq!(line["state"], "failed");
    assert_eq!(line["key"], id("o-1"));
    let run = account.run(&["list", "--all", "--limit", "1"]);
    assert_eq!(run.stdout.lines().count(), 1);
    run.says("there are more");
    account.assert_all_are_back();
}

/// One headline, one cause, one next step.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_sqs_names_its_next_step_and_its_cause_once() {
    let account = Account::empty().await;
    let run = Run::of(account.on("oders-dlq", &["list"]));
    run.assert_failed_with("SQS did not carry out sqs:GetQueueUrl: check the queue's name");
    assert_eq!(run.stderr.lines().count(), 2, "{}", run.stderr);
    let mut unreachable = account.on("orders-dlq", &["list"]);
    let run = Run::of(unreachable.env("AWS_ENDPOINT_URL_SQS", "http://127.0.0.1:9"));
    run.assert_failed_with("sqs:GetQueueUrl: check the network");
    let causes = run.stderr.matches("Connection refused");
    assert_eq!(causes.count(), 1, "{}", run.stderr);
}

/// SQS attaches no reason to a message that it moves.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_sqs_moved_says_so_and_has_the_query_for_its_reason() {
    let account = Account::empty().await;
    account.receive_too_often("m-often");
    let run = account.done(&["list", "--group", "moved-by-sqs"]);
    run.shows("moved by SQS: received too often");
    let query = r#"filter target = "sqs_once::record" and message_id = "m-often""#;
    run.says(query);
    let shown = account.run(&["show", "m-often"]);
    shown.shows("reason        moved by SQS: received too often\n");
    shown.shows(query);
    let line = account.run(&["list", "--format=json"]).one();
    assert_eq!(line["reason"], "moved by SQS: received too often");
    assert_eq!(line["group"], "moved-by-sqs");
    assert_eq!(line["example"], "m-often");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_fifo_queue_does_not_give_is_said() {
    let account = Account::empty().await;
    let fifo = "returns-dlq.fifo";
    account.create(fifo);
    for at in 0..12 {
        let message = NewMessage::new(format!("m-{at}"), "{}");
        account.put(fifo, message.in_group("one", format!("d-{at}")));
    }
    let not_given = "about 2 more messages were not looked at";
    for (arguments, not_given) in [
        (&["list"][..], not_given),
        (&["drop", "--all", "--yes"], not_given),
        (&["list"], ""),
    ] {
        let run = Run::of(account.on(fifo, arguments));
        run.assert_done();
        run.says(not_given);
        let is_said = run.stderr.contains("were not looked at");
        assert_eq!(is_said, !not_given.is_empty(), "{}", run.stderr);
    }
}

/// Dead letters of an outage, of a bug, and without a reason.
async fn after_an_outage() -> Account {
    let account = Account::empty().await;
    for (id, reason) in [
        ("m-1", "unavailable: payments: order 41: status 503"),
        ("m-2", "the body of order 7 is no JSON"),
        ("m-3", "unavailable: payments: order 42: status 503"),
        ("m-4", "the word unavailable: in a reason"),
    ] {
        let mut message = NewMessage::new(id, "{}");
        message.attributes = texts(&[("sqs-once-reason", reason)]);
        account.put("orders-dlq", message);
    }
    account.put("orders-dlq", NewMessage::new("m-5", "{}"));
    account
}

/// The ids of the messages that a run lists.
fn ids(run: &Run) -> Vec<String> {
    let mut ids: Vec<_> = run.json().iter().map(|one| text(&one["id"])).collect();
    ids.sort();
    ids
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The name of the group with a message.
fn group_with(account: &Account, message: &str) -> String {
    text(&account.run(&["show", message, "--format=json"]).one()["group"])
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_in_groups_of_one_cause() {
    let account = after_an_outage().await;
    let run = account.done(&["list"]);
    let outage = group_with(&account, "m-1");
    assert_eq!(outage.len(), 8);
    let rows: Vec<_> = run.stdout.lines().collect();
    assert_eq!(rows.len(), 4, "{rows:#?}");
    let first: Vec<_> = rows[0].split_whitespace().collect();
    assert_eq!(first[..2], ["2", &*outage]);
    // The row shows the reason of its example, as the provider gave it.
    let of = |id, order| {
        let reason = format!("unavailable: payments: order {order}: status 503");
        rows[0].contains(id) && rows[0].ends_with(&reason)
    };
    assert!(of(" m-1 ", 41) || of(" m-3 ", 42), "{}", rows[0]);
    run.shows("no-reason");
    run.says("--group GROUP lists the messages of a group");

    let run = account.run(&["list", "--format=json"]);
    let groups = run.json();
    assert_eq!(groups[0]["group"], *outage);
    assert_eq!(groups[0]["count"], 2);
    let shape = "unavailable: payments: order #: status #";
    assert_eq!(groups[0]["reason"], shape);
    assert!(text(&groups[0]["example_reason"]).ends_with(": status 503"));
    assert!(groups[0]["first"].as_str() <= groups[0]["last"].as_str());
    let run = account.run(&["list", "--group", &outage, "--format=json"]);
    assert_eq!(ids(&run), ["m-1", "m-3"]);
    assert!(run.json().iter().all(|one| one["group"] == *outage));
    let run = account.run(&["list", "--limit", "1"]);
    run.says("there are more: these are 1");
    let run = account.run(&["list", "--reason", "unavailable"]);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    assert_eq!(account.queues().0.len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_messages_of_an_outage_are_redriven_and_no_others() {
    for reason in ["unavailable", "unavailable: payments:"] {
        let account = after_an_outage().await;
        for other in ["unavailable: other", "unavail"] {
            let run = account.done(&["redrive", "--reason", other]);
            run.shows("sent 0 messages to http://");
        }
        let run = account.done(&["redrive", "--reason", reason]);
        run.shows("sent 2 messages to http://");
        assert_eq!(account.queues().0, ["m-2", "m-4", "m-5"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_shown_by_one_of_its_messages_and_dropped_alone() {
    let account = after_an_outage().await;
    let group = group_with(&account, "m-2");
    let run = account.done(&["show", "--group", &group]);
    run.shows("message id    m-2\n");
    run.shows(&format!("group         {group}\n"));
    account.fails(&["show", "--group", "00000000"], "no such messages");
    account.run(&["show"]).assert_refused_with("");
    account.done(&["drop", "--yes", "--group", &group, "--group", "no-reason"]);
    assert_eq!(account.queues().0, ["m-1", "m-3", "m-4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_that_is_redriven_or_dropped_is_logged() {
    let account = Account::new().await;
    let log = Log::new();
    account.done(&["redrive", "--state", "failed", "--log", log.name()]);
    account.done(&["drop", "--yes", "m-done", "--log", log.name()]);
    let [redriven, dropped] = log.lines().try_into().unwrap();
    assert_eq!(redriven["action"], "redrive");
    assert_eq!(redriven["id"], "m-failed");
    assert_eq!(redriven["key"], id("o-1"));
    assert_eq!(redriven["queue"], account.sqs.url("orders-dlq"));
    assert_eq!(redriven["to"], account.sqs.url("orders"));
    assert_eq!(redriven["error"], Value::Null);
    assert!(redriven["at"].is_string());
    assert_eq!(dropped["action"], "drop");
    assert_eq!(dropped["id"], "m-done");
    assert_eq!(dropped["state"], "completed");
}

/// So a process that dies after a change has written its line.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_line_cannot_be_written_stays() {
    let account = Account::new().await;
    for change in ["redrive", "drop"] {
        account.assert_refuses(
            &[change, "--all", "--yes", "--log", "/dev/full"],
            "the log /dev/full can't be written: nothing more was changed",
        );
        assert_eq!(account.queues().1, [] as [String; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_may_not_have_moved_is_logged_with_the_error() {
    let account = Account::new().await;
    let (to, log) = (account.sqs.url("no-such-queue"), Log::new());
    let redrive = ["redrive", "m-failed", "--to", &to, "--log", log.name()];
    account.fails(&redrive, "sqs:SendMessage");
    let [before, after] = log.lines().try_into().unwrap();
    assert_eq!(before["error"], Value::Null);
    assert_eq!(after["id"], "m-failed");
    assert!(after["error"].as_str().unwrap().contains("sqs:SendMessage"));
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_sqs_refuses_stays_alone_and_is_logged_with_the_reason() {
    let account = Account::new().await;
    account.put("orders-dlq", NewMessage::new("m-odd", "\u{1}"));
    let log = Log::new();
    let all = ["redrive", "--all", "--yes", "--even-completed"];
    let arguments = [&all[..], &["--format=json", "--log", log.name()]].concat();
    let run = account.fails(&arguments, "1 message stays, because they can't be sent");
    run.says("m-odd stays, because SQS refuses its copy: Invalid characters");
    let summary = run.json().pop().unwrap();
    assert_eq!(summary["redriven"], 3);
    assert!(text(&summary["unsendable"]["m-odd"]).contains("Invalid characters"));
    assert_eq!(account.queues().0, ["m-odd"]);
    let lines = log.lines();
    let [.., last] = &lines[..] else {
        panic!("{lines:?}");
    };
    assert_eq!((lines.len(), &last["id"]), (5, &json!("m-odd")));
    assert!(text(&last["error"]).contains("Invalid characters"));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_is_shown_whole() {
    let account = Account::new().await;
    let run = account.done(&["show", "m-done"]);
    run.shows("state         completed\n");
    run.shows("attribute     sqs-once-reason (String): the card was refused\n");
    run.shows("body          {\"order\":{\"id\":\"o-2\"}}\n");
    account.assert_refuses(&["show", "m-none"], "m-none: not received from the queue");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_refuses_what_is_completed_unless_told() {
    let account = Account::new().await;
    let all = ["redrive", "--all", "--yes", "--format=json"];
    let run = account.fails(
        &[&all[..], &["--key-from", "/order/id"]].concat(),
        "2 messages stay, because their effect is done",
    );
    let summary = run.json().pop().unwrap();
    assert_eq!(summary["redriven"], 1);
    assert_eq!(summary["completed"], 2);
    let (letters, orders) = account.queues();
    assert_eq!(letters, ["m-done", "m-moved"]);
    assert_eq!(orders, [r#"{"order":{"id":"o-1"}}"#]);

    let run = account.done(&["redrive", "m-done", "--even-completed"]);
    run.shows("sent 1 message to http://");
    assert_eq!(account.queues().0, ["m-moved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_selected_is_redriven() {
    let account = Account::new().await;
    account.done(&["redrive", "--state", "failed"]);
    assert_eq!(account.queues().0, ["m-done", "m-moved"]);
    let missing = "m-none: not received from the queue";
    let run = account.fails(&["redrive", "m-moved", "m-none"], missing);
    // It is completed, but the message does not contain its key.
    run.says("unknown keys: 1");
    assert_eq!(account.queues().0, ["m-done"]);
    account.run(&["redrive"]).assert_refused_with("");
    let pointer = account.run(&["list", "--key-from", "order"]);
    pointer.assert_refused_with("neither attribute:NAME nor a JSON pointer");
}

/// Messages of two queues in one dead-letter queue: moved by a consumer, by SQS, and by an older version.
async fn of_two_queues() -> Account {
    let account = Account::empty().await;
    account.create("refunds");
    for (id, source) in [("m-order", "orders"), ("m-refund", "refunds")] {
        let mut message = NewMessage::new(id, "{}");
        let arn = format!("arn:aws:sqs:eu-central-1:000000000000:{source}");
        message.attributes = texts(&[("sqs-once-source-queue", &arn), ("sqs-once-reason", "no")]);
        account.put("orders-dlq", message);
    }
    account.put("orders-dlq", NewMessage::new("m-old", "{}"));
    account.receive_too_often("m-often");
    account
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_listed_with_their_source_queue_and_selected_by_it() {
    let account = of_two_queues().await;
    let run = account.done(&["list"]);
    run.shows(" orders,refunds   no");
    let arn = "arn:aws:sqs:eu-central-1:000000000000:refunds";
    let shown = account.run(&["show", "m-refund"]);
    shown.shows(&format!("moved from    {arn}\n"));
    for (queue, expected) in [
        ("orders", &["m-often", "m-order"][..]),
        ("refunds", &["m-refund"]),
        (arn, &["m-refund"]),
        ("other", &[]),
    ] {
        let list = ["list", "--all", "--format=json", "--source-queue", queue];
        assert_eq!(ids(&account.run(&list)), expected, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_redriven_to_the_queue_that_it_came_from() {
    let account = of_two_queues().await;
    let run = account.done(&["redrive", "--all", "--yes"]);
    run.says("messages of other queues stay: refunds; send them with --source-queue");
    assert_eq!(account.queues().0, ["m-refund"]);
    let run = account.done(&["redrive", "--source-queue", "refunds"]);
    run.shows("/refunds");
    assert_eq!(account.queues().0, [""; 0]);
    assert_eq!(account.sqs.queues().messages("refunds").unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_table_nobody_knows_what_is_completed() {
    let account = Account::new().await;
    let without =
        |arguments: &[&str]| Run::of(account.command(arguments).env_remove("SQS_ONCE_TABLE"));
    without(&["redrive", "--all"])
        .assert_failed_with("without it, the command can't tell which messages are completed");
    without(&["list", "--state", "failed"]).assert_failed_with("--state needs the table");
    let run = without(&["list", "--all"]);
    run.assert_done();
    assert_eq!(run.stdout.matches("not-looked-up").count(), 2);
    assert_eq!(run.stdout.matches("unknown-key").count(), 1);
    run.says("--table TABLE shows which of these effects are done");
    account.assert_all_are_back();
    without(&["redrive", "--all", "--yes", "--even-completed"]).assert_done();
    assert_eq!(account.queues().1.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bar_is_shown_on_a_terminal_only() {
    let account = Account::new().await;
    let run = account.done(&["redrive", "m-failed"]);
    assert_eq!(run.stderr, "");
    let mut terminal = account.asked(&["redrive", "m-moved"]);
    terminal.wait_for(" of about 2");
    terminal.end().assert_done();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_asked_for_saved_and_gone() {
    let account = Account::new().await;
    let saved = Log::new();
    let save = ["--save", saved.name()];
    let completed = ["--state", "completed", "--key-from", "/order/id"];
    let arguments = [&["drop"], &completed[..], &save].concat();
    account.assert_refuses(&arguments, "confirm with --yes");

    let run = account.asked(&arguments).interrupt();
    run.assert_failed_with("interrupted");
    account.assert_all_are_back();
    let mut asked = account.asked(&arguments);
    let url = account.sqs.url("orders-dlq");
    asked.wait_for(&format!("Drop 2 messages of {url} for good (2 completed)?"));
    let run = asked.answer("n\n");
    run.assert_failed_with("nothing was changed");
    account.assert_all_are_back();
    assert!(!saved.path.exists());

    let run = account.asked(&arguments).answer("yes\n");
    run.assert_done();
    assert_eq!(run.stdout, "dropped 2 messages\n");
    assert_eq!(account.queues().0, ["m-failed"]);
    let lines = saved.lines();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["body"], r#"{"order":{"id":"o-2"}}"#);
    assert_eq!(lines[0]["attributes"]["tenant"]["text"], "seven");
}

/// Two routes with namespaces of their own share the business key, and the operator tries both.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_not_dropped_for_the_completion_of_another_route() {
    let account = Account::new().await;
    let refund = json!({"order": {"id": "o-2"}, "refund": 7}).to_string();
    account.put("orders-dlq", NewMessage::new("m-refund", refund));
    let completed = ["drop", "--yes", "--state", "completed"];
    let run = account.done(&[&completed[..], &["--key-from", "/order/id"]].concat());
    assert_eq!(run.stdout, "dropped 2 messages\n");
    assert_eq!(account.queues().0, ["m-failed", "m-refund"]);
    let all = ["redrive", "--all", "--yes", "--key-from", "/order/id"];
    account.done(&all).shows("sent 2 messages to ");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_dropped_that_cannot_be_saved_or_is_not_there() {
    let account = Account::new().await;
    let nowhere = ["drop", "--all", "--yes", "--save", "/no/such/folder/file"];
    account.assert_refuses(&nowhere, "nothing was dropped");
    account.assert_refuses(
        &["drop", "--yes", "m-done", "m-none"],
        "m-none: not received",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_of_all_names_both_queues_and_asks() {
    let account = Account::new().await;
    let unasked = "there is no terminal to ask on: confirm with --yes";
    account.assert_refuses(&["redrive", "--all"], unasked);
    let mut asked = account.asked(&["redrive", "--all"]);
    let (from, to) = (account.sqs.url("orders-dlq"), account.sqs.url("orders"));
    asked.wait_for(&format!("Send about 3 messages of {from} to {to}? [y/N] "));
    let run = asked.answer("n\n");
    run.assert_failed_with("nothing was changed");
    account.assert_all_are_back();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_is_shown_can_do_more_to_a_terminal_than_show_itself() {
    let account = Account::empty().await;
    // Every character that is unsafe for a terminal, and its neighbours in Unicode.
    let odd = "a\u{0}\t\n\r\u{1b}[2J\u{7f}\u{80}\u{9b}31m\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069} \
               é\u{a0}\u{2065}\u{1f600} \\u202e \" \\ z";
    let text = format!("payments#{odd}\u{7}");
    let mut message = NewMessage::new("m-odd", odd);
    message.attributes = texts(&[("sqs-once-reason", &text), ("sqs-once-key", &text)]);
    account.put("orders-dlq", message);
    let missing = account.run(&["show", "m-\u{9b}\u{202e}\u{1b}"]);
    missing.assert_failed_with("m-   : not received from the queue");
    let refused = account.run(&["show", "m-odd", "--\u{9b}\u{202e}\u{1b}"]);
    refused.assert_refused_with("unexpected argument '--  '");
    let json = account.run(&["show", "m-odd", "--format=json"]);
    assert_eq!(json.json()[0]["body"], odd, "JSON keeps what the text is");
    missing.assert_is_text();
    refused.assert_is_text();
    for arguments in [
        &["list"][..],
        &["list", "--format=json"],
        &["list", "--all"],
        &["list", "--all", "--format=json"],
        &["show", "m-odd"],
        &["show", "m-odd", "--format=json"],
        &["drop", "--all", "--yes"],
    ] {
        let run = account.done(arguments);
        run.assert_is_text();
        let is_list = arguments[0] == "list";
        assert!(
            !is_list || run.stdout.lines().count() == 1,
            "{}",
            run.stdout
        );
    }
}

const BUS: &str = "arn:aws:events:us-east-1:111122223333:event-busv2/shop/EXAMPLE";
const SUBSCRIBER: &str = "arn:aws:events:us-east-1:111122223333:subscriber/large/EXAMPLE";

/// What a subscriber of an event bus sends to the queue of its failures, as AWS documents it.
fn bus_failure(id: &str, target: &str, events: &[(&str, &str)]) -> NewMessage {
    let failed = events.iter().map(|(event, time)| {
        json!({
            "eventId": event, "eventGroupId": "order-1001", "deduplicationId": null, "timestamp": time,
            "targetRequestId": "0b9b8f0e",
        })
    });
    let record = json!({
        "version": "1.0",
        "busArn": BUS,
        "subscriberArn": SUBSCRIBER,
        "targetArn": format!("arn:aws:sqs:us-east-1:111122223333:{target}"),
        "errorCode": "ACCESS_DENIED",
        "errorMessage": "The delivery role is not authorized to perform sqs:SendMessage on the target.",
        "exhaustedRetryCondition": "MaximumEventAgeInSeconds",
        "retryAttempts": 4,
        "failedMessages": failed.collect::<Vec<_>>(),
    });
    let mut message = NewMessage::new(id, record.to_string());
    message.attributes = texts(&[("ERROR_CODE", "ACCESS_DENIED"), ("BUS_ARN", BUS)]);
    message
}

/// The arguments that the printed commands give to the AWS CLI. That answers each `describe-subscriber` with a document.
fn commands(run: &Run) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let cli = r#"aws() {
    if [ "$2" = describe-subscriber ]; then printf '{"of": "%s", "as": "%s"}' "$4" "$8"; return; fi
    printf '%s\n' "$@" end-of-command
}
"#;
    let start = run.stderr.find("aws eventsv2").unwrap();
    let end = run.stderr.find("Correct the cause").unwrap();
    let script = [cli, &run.stderr[start..end]].concat();
    let mut shell = Command::new("sh");
    let shell = Run::of(shell.args(["-euc", &script]).current_dir(folder.path()));
    shell.assert_done();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let commands = shell.stdout.split("end-of-command\n");
    let commands = commands.filter(|command| !command.is_empty());
    commands
        .map(|command| command.lines().map(str::to_owned).collect())
        .collect()
}

/// The value of an option.
fn option<'a>(command: &'a [String], name: &str) -> &'a str {
    let at = command.iter().position(|argument| argument == name);
    &command[at.unwrap() + 1]
}

fn replayed(command: &[String]) -> Vec<String> {
    let filter: Value = serde_json::from_str(option(command, "--filter-configuration")).unwrap();
    assert_eq!(filter["Filters"][0]["Scope"], "SYSTEM_METADATA");
    let pattern = filter["Filters"][0]["Pattern"].as_str().unwrap();
    assert!(pattern.len() <= 4096);
    let pattern: Value = serde_json::from_str(pattern).unwrap();
    pattern["aws:EventId"]
        .as_array()
        .unwrap()
        .iter()
        .map(text)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_of_an_event_bus_is_listed_with_its_bus_events_and_reason() {
    let account = Account::empty().await;
    let [one, two] = [
        "0b9b8f0e-7c0d-4d5c-9f53-0a4d1c1f2d3e",
        "9f2d7c1b-6a3e-4b8d-a5f0-3e1c9d8b7a60",
    ];
    let time = "2026-09-16T18:40:12Z";
    let events = [(one, time), (two, time)];
    account.put("orders-dlq", bus_failure("m-1", "orders", &events[..1]));
    account.put("orders-dlq", bus_failure("m-2", "orders", &events));
    let reason = "of the bus shop: ACCESS_DENIED: The delivery role is not authorized";
    let reason = format!("not delivered: event {one},{two} {reason}");
    let replay = "`dlq redrive` prints how to replay the events";
    let run = account.done(&["list", "--all", "--reason", "not delivered"]);
    run.shows(&reason);
    run.says(replay);
    let run = account.done(&["list"]);
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    run.says(replay);
    account.done(&["show", "m-2"]).shows(&reason);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_leaves_the_report_of_an_event_bus_and_prints_the_replay() {
    let account = Account::empty().await;
    let mut moved = bus_failure("m-consumers", "orders", &[("e-9", "2026-09-16T18:40:12Z")]);
    moved.attributes = texts(&[("sqs-once-reason", "no")]);
    account.put("orders-dlq", moved);
    let first = [("e-1", "2026-09-16T18:40:12.768Z")];
    let second = [("it's $(touch pwned)", "2026-09-16T18:42:59Z"), first[0]];
    account.put("orders-dlq", bus_failure("m-1", "orders", &first));
    account.put("orders-dlq", bus_failure("m-2", "orders", &second));
    let arguments = ["redrive", "--all", "--yes", "--even-completed"];
    let run = account.fails(
        &arguments,
        "2 messages stay, because they are failure records",
    );
    // A consumer of such records gets its messages back.
    run.shows("sent 1 message to ");
    assert_eq!(account.queues().0, ["m-1", "m-2"]);

    let [command] = commands(&run).try_into().unwrap();
    assert_eq!(command[..2], ["eventsv2", "create-subscriber"]);
    assert_eq!(option(&command, "--name"), "redrive-e-1");
    assert_eq!(option(&command, "--event-bus-arn"), BUS);
    assert_eq!(option(&command, "--starting-position"), "POINT_IN_TIME");
    assert_eq!(replayed(&command), ["e-1", "it's $(touch pwned)"]);
    let window = option(&command, "--point-in-time-configuration");
    let window: Value = serde_json::from_str(window).unwrap();
    assert_eq!(window["StartingPoint"], "2026-09-16T18:40:12Z");
    assert_eq!(window["EndPoint"], "2026-09-16T18:43:59Z");
    // The type, the role, the parameters and the transformer are those of the first subscriber.
    let same: Value = serde_json::from_str(option(&command, "--cli-input-json")).unwrap();
    assert_eq!(same["of"], SUBSCRIBER);
    assert!(text(&same["as"]).contains("Type: Type || 'UNORDERED', Invoke"));
    assert!(!command.contains(&"--type".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_an_event_bus_that_lacks_something_is_no_event_either() {
    let account = Account::empty().await;
    for (id, lacking) in [
        ("m-1", json!({"busArn": BUS})),
        (
            "m-2",
            json!({"busArn": BUS, "subscriberArn": SUBSCRIBER, "failedMessages": null}),
        ),
        (
            "m-3",
            json!({"busArn": BUS, "subscriberArn": SUBSCRIBER, "failedMessages": [{"eventId": "e-1"}]}),
        ),
    ] {
        account.put("orders-dlq", NewMessage::new(id, lacking.to_string()));
    }
    let all = ["redrive", "--all", "--yes", "--even-completed"];
    let run = account.fails(&all, "3 messages stay, because they are failure records");
    run.says("Some records name no subscriber or no event");
    assert_eq!(account.queues().0.len(), 3);
    let [command] = commands(&run).try_into().unwrap();
    assert_eq!(replayed(&command), ["e-1"]);
}

/// It is no consumer's dead-letter queue, and so no queue sends to it.
#[tokio::test(flavor = "multi_thread")]
async fn the_replay_is_printed_for_a_queue_of_reports_alone() {
    let account = Account::empty().await;
    let failures = "failures.fifo";
    account.create(failures);
    let all = ["redrive", "--all", "--yes", "--even-completed"];
    let redrive = || Run::of(account.on(failures, &all));
    redrive().assert_failed_with("no queues have this dead-letter queue");
    let ids: Vec<_> = (0..101).map(|at| format!("e-{at:03}")).collect();
    let events: Vec<_> = ids.iter().map(|id| (id.as_str(), "soon")).collect();
    let record = bus_failure("m-1", "orders.fifo", &events);
    account.put(failures, record.in_group("order-1001", "d-1"));
    let run = redrive();
    run.assert_failed_with("1 message stays, because they are failure records");
    let [first, rest] = commands(&run).try_into().unwrap();
    assert_eq!([replayed(&first), replayed(&rest)].concat(), ids);
    let window = option(&rest, "--point-in-time-configuration");
    assert_eq!(window, r#"{"PointType":"HORIZON"}"#);
}

/// Its first message has another reason than the later ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_group_is_listed_redriven_and_dropped_as_a_whole() {
    let account = Account::empty().await;
    for queue in ["steps.fifo", "steps-dlq.fifo"] {
        account.create(queue);
    }
    let behind = "behind a dead letter of its message group";
    for (id, group, reason) in [
        ("m-1", "order-7", "no luck"),
        ("m-2", "order-8", "no luck"),
        ("m-3", "order-7", behind),
        ("m-4", "order-9", behind),
    ] {
        let mut message = NewMessage::new(id, "{}").in_group(group, id);
        message.attributes = texts(&[("sqs-once-reason", reason)]);
        account.put("steps-dlq.fifo", message);
    }
    let done = |arguments: &[&str]| {
        let run = Run::of(account.on("steps-dlq.fifo", arguments));
        run.assert_done();
        run
    };
    let list = |group| done(&["list", "--all", "--format=json", "--message-group", group]);
    assert_eq!(ids(&list("order-7")), ["m-1", "m-3"]);
    let redrive = ["redrive", "--even-completed", "--to", "steps.fifo"];
    done(&[&redrive[..], &["--message-group", "order-7"]].concat()).shows("sent 2 messages");
    done(&["drop", "--yes", "--message-group", "order-8"]).shows("dropped 1 message");
    assert_eq!(ids(&list("order-9")), ["m-4"]);
    let queues = account.sqs.queues();
    let left = |queue| queues.messages(queue).unwrap().count();
    assert_eq!((left("steps.fifo"), left("steps-dlq.fifo")), (2, 1));
}

/// The head of a blocked group has a place, and so have the messages behind it.
#[tokio::test(flavor = "multi_thread")]
async fn message_groups_that_wait_for_the_listed_messages_are_named() {
    let account = Account::empty().await;
    let fifo = "returns-dlq.fifo";
    account.create(fifo);
    let list = |arguments: &[&str]| {
        let run = Run::of(account.on(fifo, &[&["list"], arguments].concat()));
        run.assert_done();
        run
    };
    account.put(fifo, NewMessage::new("m-1", "{}").in_group("free", "d-1"));
    assert!(!list(&[]).stderr.contains("dlq blocks"));
    for (at, group) in [(0, "order-7"), (1, "order-7"), (0, "order-8")] {
        let message = NewMessage::new(format!("m-{group}-{at}"), "{}");
        let place = format!("sqs-once:1790000000000:{at}:m-{group}-{at}");
        account.put(fifo, message.in_group(group, place));
    }
    let waiting = "wait for these messages: order-7, order-8; `dlq blocks` lists all";
    list(&[]).says(waiting);
    list(&["--all"]).says(waiting);
    for at in 0..10 {
        let message = NewMessage::new(format!("m-1{at}"), "{}");
        let place = format!("sqs-once:1790000000000:0:m-1{at}");
        account.put(fifo, message.in_group(format!("order-1{at}"), place));
    }
    list(&[]).says("order-18, order-19, …; `dlq blocks`");
}
