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

/// A line with another value of `receive_count`, and more fields.
fn with(line: &str, delivery: u64, fields: &str) -> String {
    let count = format!(r#""receive_count":{delivery},{fields}"service""#);
    line.replace(r#""receive_count":1,"service""#, &count)
}

/// The line of a failed message.
fn failed(after: u64, message: &str, code: &str) -> String {
    let fields = format!(r#""code":"{code}","reason":"it failed","#);
    with(&line(after, message, "failed", KEY), 1, &fields)
}

/// The line of a message in a FIFO queue.
fn of_group(line: &str, sequence: u64) -> String {
    let fields = format!(r#""group":"bea34c0d91aa","sequence":"188494964604676{sequence:05}","#);
    with(line, 1, &fields)
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

/// The numbers of a verdict: what holds, what is violated, and each gap with what is missing.
#[track_caller]
fn counts(
    project: &Project,
    arguments: &[&str],
    promise: &str,
) -> (u64, usize, Vec<(u64, String)>) {
    let verdict = verdict(project, arguments, promise);
    let gaps = verdict["not_judged"].as_array().unwrap().iter();
    let gap = |gap: &Value| {
        let missing = gap["missing"].as_str().unwrap().to_owned();
        (gap["count"].as_u64().unwrap(), missing)
    };
    (
        verdict["holds"].as_u64().unwrap(),
        verdict["violated"].as_array().unwrap().len(),
        gaps.map(gap).collect(),
    )
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
not judged  the effects of a message group keep its order: 1
              missing: the fields group and sequence, which lines about FIFO queues have
not judged  lines about messages that can't be read: 1
not judged  two live workers of one key, a late worker's writes, another payload under a completed key: no line tells
1           duplicates: SQS delivered the message with the effect again
1           duplicates: another message within 5 minutes of the effect
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
        (&doubtful["violated"], &doubtful["not_judged"][0]["count"]),
        (&json!([]), &json!(1))
    );

    let run = audit(&project, &["--logs", "twice"]);
    run.assert_failed_with("");
    run.shows("VIOLATED    the effect of a key happens once: 1");
}

#[test]
fn a_key_with_an_effect_and_an_attempt_of_unknown_outcome_is_not_judged() {
    let effect = line(60, "m-1", "processed", KEY);
    let promise = "happens once";
    for code in [
        "not-completed",
        "lease-lost",
        "commit-unconfirmed",
        "deadline",
        "attempt-timeout",
        "handler-panicked",
        "handler-dropped",
        "handler-error",
        "hook-failed",
        "order-unknown",
        "deliveries-used-up",
        "outcome-unknown",
        "unavailable",
        "a-later-version's",
    ] {
        let text = [failed(0, "m-1", code), effect.clone()].join("\n");
        let project = project(&[("log", &text)]);
        let missing = format!("the outcome of another attempt ({code} 1)");
        let expected = (0, 0, vec![(1, missing)]);
        assert_eq!(counts(&project, &["--logs", "log"], promise), expected);
        let verdict = verdict(&project, &["--logs", "log"], promise);
        assert_eq!(verdict["not_judged"][0]["keys"][0]["key"], KEY);
        audit(&project, &["--logs", "log"]).assert_done();
    }
}

#[test]
fn an_attempt_that_can_have_had_no_effect_does_not_count() {
    let effect = line(60, "m-1", "processed", KEY);
    let open = r#""code":"unavailable","reason":"unavailable: payments: its breaker is open","#;
    let open = with(&line(0, "m-1", "failed", KEY), 1, open);
    let untried = [failed(0, "m-1", "not-started"), effect.clone()].join("\n");
    let open = [open, effect].join("\n");
    let alone = failed(0, "m-1", "deadline");
    let project = project(&[("untried", &untried), ("open", &open), ("alone", &alone)]);
    for (file, once) in [("untried", 1), ("open", 1), ("alone", 0)] {
        let counts = counts(&project, &["--logs", file], "happens once");
        assert_eq!(counts, (once, 0, vec![]), "{file}");
    }
}

#[test]
fn an_effect_whose_worker_had_lost_its_key_to_another_is_not_judged() {
    let lost = r#""code":"lease-lost","reason":"another worker had completed it","#;
    let project = project(&[("log", &with(&line(0, "m-1", "processed", KEY), 1, lost))]);
    let (once, violated, gaps) = counts(&project, &["--logs", "log"], "happens once");
    assert_eq!((once, violated, gaps.len()), (0, 0, 1));
}

#[test]
fn a_delivery_without_a_line_is_an_attempt_of_unknown_outcome() {
    let killed = with(&line(60, "m-1", "processed", KEY), 2, "");
    let text = r#"2026-09-21T14:13:20.1Z  INFO sqs_once::record: outcome="processed" message_id="m-1" key="charges#3f9ab1c20d45" receive_count=2 message processed"#;
    // The line of a batch that ended early has no key.
    let early = line(0, "m-1", "failed", KEY).replace(&format!(r#""key":"{KEY}","#), "");
    let early = with(&early, 1, r#""code":"no-outcome","#);
    let seen = [failed(0, "m-1", "not-claimed"), killed.clone()].join("\n");
    let project = project(&[
        ("killed", &killed),
        ("text", text),
        ("early", &[early, killed.clone()].join("\n")),
        ("seen", &seen),
    ]);
    for (file, code) in [
        ("killed", "a delivery without a line"),
        ("text", "a delivery without a line"),
        ("early", "no-outcome"),
    ] {
        let missing = format!("the outcome of another attempt ({code} 1)");
        let counts = counts(&project, &["--logs", file], "happens once");
        assert_eq!(counts, (0, 0, vec![(1, missing)]), "{file}");
    }
    let counts = counts(&project, &["--logs", "seen"], "happens once");
    assert_eq!(counts, (1, 0, vec![]));
}

#[test]
fn a_later_effect_is_judged_by_the_retention_that_is_given_or_that_the_table_tells() {
    let text = [
        line(0, "m-1", "processed", KEY),
        line(29 * DAY, "m-2", "processed", KEY),
    ]
    .join("\n");
    let soon = [
        line(0, "m-1", "processed", KEY),
        line(2 * DAY, "m-2", "processed", KEY),
    ]
    .join("\n");
    let mut kept = item(KEY, "COMPLETED", 0);
    let (mut default, mut short) = (kept.clone(), kept.clone());
    let items = [
        (&mut kept, 29 + 400),
        (&mut default, 29 + 28),
        (&mut short, 2 + 1),
    ];
    for (item, days) in items {
        item["expiration"] = json!({ "N": (1_790_000_000 + days * DAY).to_string() });
    }
    let project = project(&[
        ("log", &text),
        ("kept.json", &scan(&[kept])),
        ("default.json", &scan(&[default])),
        ("soon", &soon),
        ("short.json", &scan(&[short])),
    ]);
    let of = |arguments: &[&str]| {
        let arguments = [&["--logs", "log"], arguments].concat();
        let (once, violated, gaps) = counts(&project, &arguments, "happens once");
        (once, violated, gaps.len())
    };
    assert_eq!(of(&["--retention", "28days"]), (1, 0, 0));
    assert_eq!(of(&["--retention", "30days"]), (0, 1, 0));
    assert_eq!(of(&[]), (0, 0, 1));
    assert_eq!(of(&["--table", "kept.json"]), (0, 1, 0));
    // The item may be that of the first effect, if the table was copied before the log.
    assert_eq!(of(&["--table", "default.json"]), (0, 0, 1));
    let soon = ["--logs", "soon", "--table", "short.json"];
    let (once, violated, gaps) = counts(&project, &soon, "happens once");
    assert_eq!((once, violated, gaps.len()), (0, 0, 1));
    audit(&project, &["--logs", "log"]).shows("28 days are assumed");
    let assumed = json!({ "seconds": 28 * DAY, "is_assumed": true });
    assert_eq!(judged(&project, &["--logs", "log"])["retention"], assumed);
}

#[test]
fn a_violation_by_the_assumed_retention_says_so() {
    let text = [
        line(0, "m-1", "processed", KEY),
        line(DAY, "m-1", "processed", KEY),
    ]
    .join("\n");
    let project = project(&[("log", &text)]);
    let assumed = audit(&project, &["--logs", "log"]);
    assumed.shows("a retention of 28 days is assumed");
    let given = audit(&project, &["--logs", "log", "--retention", "2days"]);
    given.shows("certain, unless an operator forgot the key)");
}

#[test]
fn a_duplicate_without_an_effect_is_not_judged_unless_the_files_reach_back_far_enough() {
    let early = line(0, "m-0", "processed", OTHER);
    let soon = [early.clone(), line(DAY, "m-1", "duplicate", KEY)].join("\n");
    let late = [early.clone(), line(29 * DAY, "m-1", "duplicate", KEY)].join("\n");
    let before = [soon.clone(), line(2 * DAY, "m-2", "processed", KEY)].join("\n");
    let committed = failed(29 * DAY - MINUTE, "m-1", "commit-unconfirmed");
    let committed = [late.clone(), committed].join("\n");
    let known = item(KEY, "COMPLETED", 0);
    let mut another = known.clone();
    another["id"]["S"] = format!("{KEY}{}", "f".repeat(52)).into();
    let project = project(&[
        ("two.json", &scan(&[known, another])),
        ("soon", &soon),
        ("late", &late),
        ("before", &before),
        ("committed", &committed),
        ("keys.json", &scan(&[item(KEY, "COMPLETED", 0)])),
    ]);
    let of = |arguments: &[&str]| {
        let (holds, violated, gaps) = counts(&project, arguments, "after the effect");
        (holds, violated, gaps.len())
    };
    assert_eq!(of(&["--logs", "soon"]), (0, 0, 1));
    assert_eq!(of(&["--logs", "soon", "--table", "keys.json"]), (1, 0, 0));
    assert_eq!(of(&["--logs", "soon", "--table", "two.json"]), (0, 0, 1));
    // The item is completed by the effect after the duplicate.
    assert_eq!(of(&["--logs", "before", "--table", "keys.json"]), (0, 0, 1));
    let known = ["--retention", "28days"];
    assert_eq!(of(&["--logs", "late"]), (0, 0, 1));
    assert_eq!(of(&[&["--logs", "late"], &known[..]].concat()), (0, 1, 0));
    // The attempt before it may have had the effect.
    let committed = [&["--logs", "committed"], &known[..]].concat();
    assert_eq!(of(&committed), (0, 0, 1));
}

#[test]
fn a_terminal_message_without_a_later_line_is_not_judged() {
    let text = [
        line(0, "m-1", "terminal", KEY),
        line(0, "m-2", "terminal", OTHER),
        line(9, "m-2", "duplicate", OTHER),
    ]
    .join("\n");
    let project = project(&[("log", &text)]);
    let missing = "whether the terminal message was moved: the dead-letter queue";
    let expected = (1, 0, vec![(1, missing.to_owned())]);
    let counts = counts(&project, &["--logs", "log"], "in the end");
    assert_eq!(counts, expected);
}

#[test]
fn lines_without_a_key_are_not_judged() {
    let text = line(0, "m-1", "processed", KEY).replace(&format!(r#""key":"{KEY}","#), "");
    let project = project(&[("log", &text)]);
    let run = audit(&project, &["--logs", "log"]);
    run.assert_done();
    run.shows("not judged  lines without a key: 1");
    assert_eq!(judged(&project, &["--logs", "log"])["lines_without_key"], 1);
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
    let turn = |after, message: &str, key, sequence| {
        of_group(&line(after, message, "processed", key), sequence)
    };
    let kept = [turn(0, "m-1", KEY, 1), turn(9, "m-2", OTHER, 2)].join("\n");
    let close = [turn(2, "m-1", KEY, 1), turn(0, "m-2", OTHER, 2)].join("\n");
    let lost = [turn(9, "m-1", KEY, 1), turn(0, "m-2", OTHER, 2)].join("\n");
    let project = project(&[("kept", &kept), ("close", &close), ("lost", &lost)]);
    let order = |file| verdict(&project, &["--logs", file], "keep its order");
    assert_eq!(order("kept")["holds"], 2);
    let close = order("close");
    assert_eq!(
        (&close["holds"], &close["not_judged"][0]["count"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(order("lost")["violated"][0]["key"], "group bea34c0d91aa");
}

#[test]
fn the_order_behind_a_dead_letter_is_not_judged() {
    let turn = |after, message: &str, outcome, sequence| {
        of_group(&line(after, message, outcome, message), sequence)
    };
    let [first, second] = [
        turn(0, "m-0", "processed", 0),
        turn(9, "m-2", "processed", 2),
    ];
    // SQS gives a message another number when it comes back from the dead-letter queue.
    let redriven = turn(60, "m-9", "processed", 9);
    let dead = turn(1, "m-1", "terminal", 1);
    // SQS itself moves a message without a line.
    let returned = turn(1, "m-1", "failed", 1);
    let done = turn(2, "m-1", "processed", 1);
    let before = turn(20, "m-0", "processed", 0);
    // Its group went on, but the answer that acknowledged it was lost.
    let back = turn(60, "m-1", "processed", 1);
    let project = project(&[
        ("dead", &[&*first, &dead, &second, &redriven].join("\n")),
        (
            "returned",
            &[&*first, &returned, &second, &redriven].join("\n"),
        ),
        ("retried", &[&*first, &returned, &done, &second].join("\n")),
        ("before", &[&*before, &dead, &second].join("\n")),
        ("back", &[&*first, &dead, &second, &back].join("\n")),
    ]);
    let missing = "the place of an earlier message, which may have become a dead letter";
    let behind = |count| vec![(count, missing.to_owned())];
    let order = |file| counts(&project, &["--logs", file], "keep its order");
    assert_eq!(order("dead"), (1, 0, behind(2)));
    assert_eq!(order("returned"), (1, 0, behind(2)));
    assert_eq!(order("retried"), (3, 0, vec![]));
    assert_eq!(order("before"), (0, 1, behind(1)));
    assert_eq!(order("back"), (1, 0, behind(2)));
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
