//! Runs `cargo sqs-once audit` as a user does.

use crate::project::{Project, Run};
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;
const KEY: &str = "charges#3f9ab1c20d45";
const OTHER: &str = "charges#a81f2233aa01";

/// The line of a message, so many seconds after the first.
fn line(after: u64, message: &str, outcome: &str, key: &str) -> String {
    let at =
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_secs(1_790_000_000 + after));
    // The order of the library's fields.
    format!(
        r#"{{"timestamp":"{at}","level":"INFO","message":"message {outcome}","outcome":"{outcome}","message_id":"{message}","duration_ms":1.5,"key":"{key}","receive_count":1,"service":"charges","target":"sqs_once::record"}}"#
    )
}

fn project(files: &[(&str, &str)]) -> Project {
    let project = Project::empty();
    for (name, text) in files {
        project.write(name, text);
    }
    project
}

fn audit(project: &Project, arguments: &[&str]) -> Run {
    Run::of(project.command("audit", arguments))
}

/// The verdict of a promise, as JSON.
#[track_caller]
fn verdict(project: &Project, arguments: &[&str], promise: &str) -> Value {
    let judged = judged(project, arguments);
    let verdicts = judged["verdicts"].as_array().unwrap();
    let of = |one: &&Value| one["promise"].as_str().unwrap().contains(promise);
    verdicts.iter().find(of).unwrap().clone()
}

#[track_caller]
fn judged(project: &Project, arguments: &[&str]) -> Value {
    let run = audit(project, &[arguments, &["--format", "json"]].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{}", run.stderr))
}

/// An item of the table under a key whose hash starts with the digits of [`KEY`].
fn item(key: &str, status: &str, lease: u64) -> Value {
    let rest = "0".repeat(52);
    json!({
        "id": { "S": format!("{key}{rest}") },
        "status": { "S": status },
        "in_progress_expiration": { "N": lease.to_string() },
    })
}

fn scan(items: &[Value]) -> String {
    json!({ "Items": items, "Count": items.len(), "ConsumedCapacity": null }).to_string()
}

#[test]
fn a_log_is_judged_in_each_form_in_which_people_have_it() {
    let lines = [
        line(0, "m-1", "processed", KEY),
        line(9, "m-2", "duplicate", KEY),
    ];
    let plain = lines.join("\n");
    let events = lines
        .each_ref()
        .map(|line| json!({ "message": line, "logStreamName": "s" }));
    let tail = lines
        .each_ref()
        .map(|line| format!("2026-09-21T14:13:20 2026/09/21/[$LATEST]abc {line}"));
    let csv = lines
        .each_ref()
        .map(|line| format!("1790000000000,\"{}\"", line.replace('"', "\"\"")));
    let text = [
        r#"2026-09-21T14:13:20.1Z  INFO invocation{service="s"}: sqs_once::record: outcome="processed" message_id="m-1" key="charges#3f9ab1c20d45" message processed"#,
        r#"2026-09-21T14:13:29.1Z  WARN sqs_once::record: outcome="duplicate" message_id="m-2" code="payload-mismatch" reason="not \" key=\"x\"" key="charges#3f9ab1c20d45" receive_count=1 message duplicate"#,
    ];
    let mut gz = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(plain.as_bytes()).unwrap();
    let forms = [
        ("plain.log", plain.clone()),
        ("events.json", format!("{:#}", json!({ "events": events }))),
        ("one-line.json", json!({ "events": events }).to_string()),
        ("tail.txt", tail.join("\n")),
        ("text.log", text.join("\n")),
        (
            "console.csv",
            format!("timestamp,message\n{}", csv.join("\n")),
        ),
    ];
    let project = project(&forms.each_ref().map(|(name, text)| (*name, &**text)));
    std::fs::write(project.path("plain.gz"), gz.finish().unwrap()).unwrap();
    for name in forms.iter().map(|(name, _)| *name).chain(["plain.gz"]) {
        let judged = judged(&project, &["--logs", name]);
        assert_eq!(
            judged["outcomes"],
            json!({ "processed": 1, "duplicate": 1 }),
            "{name}: {judged}"
        );
        assert_eq!(judged["unread_lines"], 0, "{name}");
    }
    // Files overlap.
    let all = judged(
        &project,
        &["--logs", "plain.log", "events.json", "plain.gz"],
    );
    assert_eq!(all["lines"], 2);
}

#[test]
fn the_verdicts_say_what_holds_and_what_the_files_cannot_decide() {
    let text = [
        line(0, "m-1", "processed", KEY),
        line(1, "m-1", "duplicate", KEY),
        line(2, "m-2", "duplicate", KEY),
        line(3, "m-3", "failed", OTHER),
        r#"{"timestamp":"2026-09-21T14:13:20Z","message":"charged","target":"orders"}"#.to_owned(),
        "INFO sqs_once::record: outcome=?".to_owned(),
    ];
    let run = audit(&project(&[("log", &text.join("\n"))]), &["--logs", "log"]);
    run.assert_done();
    assert_eq!(
        run.stdout,
        "\
4 lines of messages from 2026-09-21T14:13:20Z to 2026-09-21T14:13:23Z: 1 processed, 2 duplicate, 1 failed
2 keys, 1 effect
holds       the effect of a key happens once: 1
holds       a duplicate is acknowledged after the effect of its key: 2
holds       a message is processed, a duplicate, or a dead letter in the end: 2
not judged  a message is processed, a duplicate, or a dead letter in the end: 1
              missing: a line after the message returned: younger files, the queue, or the dead-letter queue
1           duplicates: SQS delivered the message with the effect again
1           duplicates: another message within 5 minutes of the effect
1           lines about messages that can't be read
"
    );
}

#[test]
fn two_effects_of_one_key_are_a_violation_that_the_table_confirms() {
    let twice = [
        line(0, "m-1", "processed", KEY),
        line(90, "m-2", "processed", KEY),
    ]
    .join("\n");
    let again = [
        line(0, "m-1", "processed", KEY),
        line(90, "m-1", "processed", KEY),
    ]
    .join("\n");
    let (one, another) = (
        item(KEY, "COMPLETED", 0),
        item(&format!("{KEY}f"), "COMPLETED", 0),
    );
    let mut shorter = another.clone();
    let id = shorter["id"]["S"].as_str().unwrap();
    shorter["id"]["S"] = id[..id.len() - 1].into();
    let project = project(&[
        ("twice", &twice),
        ("again", &again),
        ("one.json", &scan(std::slice::from_ref(&one))),
        ("two.json", &scan(&[one, shorter])),
    ]);
    let promise = "happens once";
    let because = |arguments: &[&str]| {
        let verdict = verdict(&project, arguments, promise);
        assert_eq!(verdict["violated"][0]["effects"], 2, "{verdict}");
        verdict["violated"][0]["because"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert!(because(&["--logs", "twice"]).starts_with("possible"));
    assert!(because(&["--logs", "again"]).starts_with("certain"));
    let confirmed = because(&["--logs", "twice", "--table", "one.json"]);
    assert!(confirmed.starts_with("the table has one key"));
    // Two keys have these digits: each may have had one effect.
    let doubtful = verdict(
        &project,
        &["--logs", "twice", "--table", "two.json"],
        promise,
    );
    assert_eq!(
        (&doubtful["violated"], &doubtful["not_judged"]),
        (&json!([]), &json!(1))
    );

    let run = audit(&project, &["--logs", "twice"]);
    run.assert_failed_with("");
    run.shows("VIOLATED    the effect of a key happens once: 1");
}

#[test]
fn an_effect_may_happen_again_once_the_completion_has_expired() {
    let text = [
        line(0, "m-1", "processed", KEY),
        line(29 * DAY, "m-2", "processed", KEY),
    ]
    .join("\n");
    let project = project(&[("log", &text)]);
    assert_eq!(
        verdict(&project, &["--logs", "log"], "happens once")["holds"],
        1
    );
    let longer = verdict(
        &project,
        &["--logs", "log", "--retention", "30d"],
        "happens once",
    );
    assert_eq!(longer["violated"][0]["effects"], 2);
}

#[test]
fn a_duplicate_without_an_effect_is_not_judged_unless_the_files_reach_back_far_enough() {
    let early = line(0, "m-0", "processed", OTHER);
    let soon = [early.clone(), line(DAY, "m-1", "duplicate", KEY)].join("\n");
    let late = [early, line(29 * DAY, "m-1", "duplicate", KEY)].join("\n");
    let project = project(&[
        ("soon", &soon),
        ("late", &late),
        ("keys.json", &scan(&[item(KEY, "COMPLETED", 0)])),
    ]);
    let promise = "after the effect";
    assert_eq!(
        verdict(&project, &["--logs", "soon"], promise)["not_judged"],
        1
    );
    let known = verdict(
        &project,
        &["--logs", "soon", "--table", "keys.json"],
        promise,
    );
    assert_eq!(
        (&known["holds"], &known["not_judged"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        verdict(&project, &["--logs", "late"], promise)["violated"][0]["key"],
        KEY
    );
}

#[test]
fn clocks_that_differ_by_less_than_the_lease_margin_make_no_violation() {
    let text = [
        line(0, "m-2", "duplicate", KEY),
        line(2, "m-1", "processed", KEY),
    ]
    .join("\n");
    let project = project(&[("log", &text)]);
    assert_eq!(
        verdict(&project, &["--logs", "log"], "after the effect")["holds"],
        1
    );
}

#[test]
fn an_effect_before_that_of_an_earlier_message_of_its_group_is_a_violation() {
    let turn = |after, message: &str, key, sequence: u64| {
        let fields = format!(
            r#""group":"bea34c0d91aa","sequence":"188494964604676{sequence:05}","service""#
        );
        line(after, message, "processed", key).replace(r#""service""#, &fields)
    };
    let kept = [turn(0, "m-1", KEY, 1), turn(9, "m-2", OTHER, 2)].join("\n");
    let close = [turn(2, "m-1", KEY, 1), turn(0, "m-2", OTHER, 2)].join("\n");
    let lost = [turn(9, "m-1", KEY, 1), turn(0, "m-2", OTHER, 2)].join("\n");
    let project = project(&[("kept", &kept), ("close", &close), ("lost", &lost)]);
    let order = |file| verdict(&project, &["--logs", file], "keep its order");
    assert_eq!(order("kept")["holds"], 2);
    assert_eq!(
        (&order("close")["holds"], &order("close")["not_judged"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(order("lost")["violated"][0]["key"], "group bea34c0d91aa");
}

#[test]
fn the_table_tells_lapsed_claims_and_completions_without_an_acknowledgement() {
    let lapsed = item(OTHER, "INPROGRESS", 1_790_000_000_000);
    let released = item("charges#000000000000", "INPROGRESS", 0);
    let items = [item(KEY, "COMPLETED", 1), lapsed, released];
    let export: Vec<_> = items
        .iter()
        .map(|item| json!({ "Item": item }).to_string())
        .collect();
    let project = project(&[
        ("log", &line(5, "m-1", "failed", OTHER)),
        (
            "scan.json",
            &format!(
                "{:#}",
                serde_json::from_str::<Value>(&scan(&items)).unwrap()
            ),
        ),
        ("export.json", &export.join("\n")),
    ]);
    for table in ["scan.json", "export.json"] {
        let judged = judged(&project, &["--logs", "log", "--table", table]);
        let expected = json!({
            "items": 3,
            "completed_without_acknowledgement": [KEY],
            "lapsed_claims": [OTHER],
        });
        assert_eq!(judged["table"], expected, "{table}");
    }
}

#[test]
fn a_list_of_effects_from_another_library_is_judged_too() {
    let list = "\
time,key,what
2026-09-21T14:13:20Z,\"doc-1, page 2\",effect
2026-09-21T14:13:21Z,\"doc-1, page 2\",effect
2026-09-21T14:13:22Z,doc-2,effect
2026-09-21T14:13:23Z,doc-2,duplicate
";
    let project = project(&[
        ("list.csv", list),
        ("wrong.csv", "time,key,what\nyesterday,doc-1,effect\n"),
    ]);
    let run = audit(&project, &["--events", "list.csv"]);
    run.assert_failed_with("");
    run.shows("2 keys, 3 effects");
    run.shows("\"doc-1, page 2\": 2 effects");
    let wrong = audit(&project, &["--events", "wrong.csv"]);
    wrong.assert_failed_with("wrong.csv:2 is not TIME,KEY,effect");
}

#[test]
fn a_file_that_is_none_of_these_is_named() {
    let project = project(&[
        ("log", "START RequestId: 1\n"),
        ("keys.json", "{\"Items\": []}"),
        ("ion", "$ion_1_0 {}"),
    ]);
    let nothing = audit(&project, &["--logs", "log"]);
    nothing.assert_done();
    nothing.shows("no line of a message");
    audit(&project, &["--logs", "gone"]).assert_failed_with("gone can't be read");
    for table in ["keys.json", "ion"] {
        audit(&project, &["--logs", "log", "--table", table]).assert_failed_with(table);
    }
}
