//! Formats the verdicts for people and as JSON.

use super::history::{ASSUMED_RETENTION, Certainty, Histories, Repeated};
use super::lines::Lines;
use super::names::Key;
use crate::operate::moment;
use crate::print::{self, counted, one_line};
use serde_json::{Value, json};
use sqs_once::store::Timestamp;
use std::collections::BTreeMap;
use std::iter;

/// How many keys the text names for each verdict. JSON names all.
const MOST: usize = 20;

/// What no line tells, so that it is never judged.
const NEVER_JUDGED: &str =
    "two live workers of one key, a late worker's writes, another payload under a completed key";

/// The judgement of one guarantee.
struct Verdict<'a> {
    promise: &'static str,
    holds: u64,
    violated: Vec<Value>,
    not_judged: Vec<Gap<'a>>,
}

/// What the files can't decide, and what is missing for that.
struct Gap<'a> {
    count: u64,
    missing: String,
    /// Their keys, for JSON. There may be millions.
    keys: Box<dyn Iterator<Item = Value> + 'a>,
}

impl<'a> Gap<'a> {
    fn new(count: u64, missing: impl Into<String>) -> Self {
        Self {
            count,
            missing: missing.into(),
            keys: Box::new(iter::empty()),
        }
    }

    fn of(keys: impl ExactSizeIterator<Item = Value> + 'a, missing: impl Into<String>) -> Self {
        Self {
            count: keys.len() as u64,
            missing: missing.into(),
            keys: Box::new(keys),
        }
    }
}

fn verdicts<'a>(lines: &'a Lines, judged: &'a Histories) -> Vec<Verdict<'a>> {
    let because =
        move |key: Key, because: &str| json!({ "key": lines.names.name(key), "because": because });
    let (doubtful, repeated): (Vec<_>, Vec<_>) = judged
        .repeated
        .iter()
        .partition(|one| one.certainty == Certainty::OfTwoKeys);
    let shown = move |one: &Repeated| repeated_json(lines, one);
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, code) in &judged.unknown {
        *codes.entry(lines.code_name(*code)).or_default() += 1;
    }
    let codes: Vec<_> = codes
        .iter()
        .map(|(code, count)| format!("{code} {count}"))
        .collect();
    let unknown = judged.unknown.iter().map(move |(key, code)| {
        let code = lines.code_name(*code);
        because(*key, &format!("an attempt of unknown outcome: {code}"))
    });
    let expired = judged.expired.iter();
    let expired = expired.map(move |key| because(*key, "the completion may have expired"));
    let once = Verdict {
        promise: "the effect of a key happens once",
        holds: judged.once,
        violated: repeated.into_iter().map(shown).collect(),
        not_judged: vec![
            Gap::of(
                unknown,
                format!("the outcome of another attempt ({})", codes.join(", ")),
            ),
            Gap::of(
                expired,
                "--retention: the completion may have expired (28 days are assumed, unless the table tells)",
            ),
            Gap::of(
                doubtful.into_iter().map(shown),
                "the whole key: the table has several with these digits",
            ),
        ],
    };
    let missing =
        "no effect within the retention, unless a file is missing or an operator completed the key";
    let after = Verdict {
        promise: "a duplicate is acknowledged after the effect of its key",
        holds: judged.after_effect,
        violated: judged
            .before_effect
            .iter()
            .map(|key| because(*key, missing))
            .collect(),
        not_judged: vec![Gap::new(
            judged.effect_unknown,
            "the lines of the effect: older files, or --table",
        )],
    };
    if lines.are_events {
        return vec![once, after];
    }
    let ends = Verdict {
        promise: "a message is processed, a duplicate, or a dead letter in the end",
        holds: judged.ended,
        violated: Vec::new(),
        not_judged: vec![
            Gap::new(
                judged.returned,
                "a line after the message returned: younger files, the queue, or the dead-letter queue",
            ),
            Gap::new(
                judged.terminal,
                "whether the terminal message was moved: the dead-letter queue",
            ),
        ],
    };
    let group = |group: &u64| {
        let because = "a message had its effect before an earlier one";
        json!({ "key": format!("group {group:012x}"), "because": because })
    };
    let order = Verdict {
        promise: "the effects of a message group keep its order",
        holds: judged.in_order,
        violated: judged.overtaken.iter().map(group).collect(),
        not_judged: vec![
            Gap::new(
                judged.order_unknown,
                "clocks that agree: the effects are less than 3 s apart",
            ),
            Gap::new(
                judged.behind,
                "the place of an earlier message, which may have become a dead letter",
            ),
            Gap::new(
                judged.without_place,
                "the fields group and sequence, which lines about FIFO queues have",
            ),
        ],
    };
    vec![once, after, ends, order]
}

fn repeated_json(lines: &Lines, one: &Repeated) -> Value {
    let because = match one.certainty {
        Certainty::Certain => "certain, unless an operator forgot the key",
        Certainty::Confirmed => {
            "the table has one key with these digits; unless an operator forgot it"
        }
        Certainty::Possible | Certainty::OfTwoKeys => {
            "possible: another key may have these digits; --table tells"
        }
    };
    let assumed = match one.is_assumed {
        true => "; a retention of 28 days is assumed",
        false => "",
    };
    let last = moment(Timestamp::from_millis(one.last));
    json!({
        "key": lines.names.name(one.key),
        "effects": one.effects,
        "last": last,
        "because": format!("{because}{assumed}"),
    })
}

pub(super) fn json(lines: &Lines, judged: &Histories) -> Value {
    let verdicts = verdicts(lines, judged).into_iter().map(|verdict| {
        let gaps = verdict.not_judged.into_iter().filter(|gap| gap.count > 0);
        let gaps =
            gaps.map(|gap| json!({ "count": gap.count, "missing": gap.missing, "keys": gap.keys.collect::<Vec<_>>() }));
        json!({
            "promise": verdict.promise,
            "holds": verdict.holds,
            "violated": verdict.violated,
            "not_judged": gaps.collect::<Vec<_>>(),
        })
    });
    let names = |keys: &[Key]| {
        keys.iter()
            .map(|key| lines.names.name(*key))
            .collect::<Vec<_>>()
    };
    let table = judged.of_table.as_ref();
    let retention = judged.retention.unwrap_or(ASSUMED_RETENTION);
    json!({
        "lines": lines.ends.len(),
        "unread_lines": lines.unread,
        "lines_without_key": judged.without_key,
        "keys": judged.keys,
        "effects": judged.effects,
        "outcomes": judged.outcomes,
        "retention": { "seconds": retention / 1_000, "is_assumed": judged.retention.is_none() },
        "verdicts": verdicts.collect::<Vec<_>>(),
        "never_judged": NEVER_JUDGED,
        "duplicates": {
            "redelivered": judged.causes.redelivered,
            "sent_again_within_5_minutes": judged.causes.sent_within_minutes,
            "sent_again_within_a_day": judged.causes.sent_within_a_day,
            "sent_again_later": judged.causes.sent_later,
        },
        "payload_mismatches": judged.mismatches,
        "leases_lost": judged.leases_lost,
        "table": table.map(|table| json!({
            "items": table.items,
            "completed_without_acknowledgement": names(&table.unacknowledged),
            "lapsed_claims": names(&table.lapsed),
        })),
    })
}

pub(super) fn text(lines: &Lines, judged: &Histories) -> String {
    let mut shown = vec![summary(lines, judged)];
    for verdict in verdicts(lines, judged) {
        let promise = verdict.promise;
        if verdict.holds > 0 {
            shown.push(format!("holds       {promise}: {}", verdict.holds));
        }
        if !verdict.violated.is_empty() {
            shown.push(format!("VIOLATED    {promise}: {}", verdict.violated.len()));
            shown.extend(verdict.violated.iter().take(MOST).map(violation));
            more(&mut shown, verdict.violated.len());
        }
        for gap in verdict.not_judged.iter().filter(|gap| gap.count > 0) {
            shown.push(format!("not judged  {promise}: {}", gap.count));
            shown.push(format!("              missing: {}", one_line(&gap.missing)));
        }
    }
    let unjudged = [
        (lines.unread, "lines about messages that can't be read"),
        (judged.without_key, "lines without a key"),
    ];
    let unjudged = unjudged.iter().filter(|(count, _)| *count > 0);
    shown.extend(unjudged.map(|(count, what)| format!("not judged  {what}: {count}")));
    shown.push(format!("not judged  {NEVER_JUDGED}: no line tells"));
    let causes = &judged.causes;
    let counts = [
        (
            causes.redelivered,
            "duplicates: SQS delivered the message with the effect again",
        ),
        (
            causes.sent_within_minutes,
            "duplicates: another message within 5 minutes of the effect",
        ),
        (
            causes.sent_within_a_day,
            "duplicates: another message within a day",
        ),
        (
            causes.sent_later,
            "duplicates: another message later, such as a redrive or a replay",
        ),
        (
            judged.mismatches,
            "messages with the key of another payload",
        ),
        (
            judged.leases_lost,
            "messages whose worker lost its lease: the effect may have happened twice",
        ),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    shown.extend(counts.map(|(count, what)| format!("{count:<11} {what}")));
    if let Some(table) = &judged.of_table {
        let keys = [
            (
                &table.unacknowledged,
                "completed keys without an acknowledged message in these files",
            ),
            (
                &table.lapsed,
                "claims that lapsed: the outcome of their attempts is unknown",
            ),
        ];
        for (keys, what) in keys.into_iter().filter(|(keys, _)| !keys.is_empty()) {
            shown.push(format!("{:<11} {what}", keys.len()));
            let names = keys.iter().take(MOST);
            shown.extend(
                names.map(|key| format!("              {}", one_line(&lines.names.name(*key)))),
            );
            more(&mut shown, keys.len());
        }
    }
    shown.join("\n")
}

fn summary(lines: &Lines, judged: &Histories) -> String {
    let ends = counted(lines.ends.len() as u64, "line", "lines");
    let keys = counted(judged.keys, "key", "keys");
    let effects = counted(judged.effects, "effect", "effects");
    let Some((first, last)) = judged.span else {
        return "no line of a message".to_owned();
    };
    let [first, last] = [first, last].map(|at| moment(Timestamp::from_millis(at)));
    let outcomes = print::outcomes(&judged.outcomes);
    format!("{ends} of messages from {first} to {last}: {outcomes}\n{keys}, {effects}")
}

fn violation(one: &Value) -> String {
    let key = one_line(one["key"].as_str().unwrap_or_default());
    let because = one["because"].as_str().unwrap_or_default();
    match one["effects"].as_u64() {
        Some(effects) => format!(
            "              {key}: {effects} effects, the last at {} ({because})",
            one["last"].as_str().unwrap_or_default()
        ),
        None => format!("              {key}: {because}"),
    }
}

fn more(shown: &mut Vec<String>, all: usize) {
    if all > MOST {
        shown.push(format!(
            "              and {} more: --format json names all",
            all - MOST
        ));
    }
}
