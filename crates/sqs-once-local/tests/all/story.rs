//! Tests the story through its report, which contains all of it. `.ci/page.py` tests what the page shows of it.

use crate::support::{DEAD, QUEUE, at};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use sqs_once_local::{Answer, Limits, LocalEvent, RecordLine, Story};
use std::num::NonZeroUsize;

/// A story with scripted events, each a second after the previous one.
struct Teller {
    story: Story,
    now: u64,
}

impl Teller {
    fn new(limits: Limits) -> Self {
        let story = Story::new(QUEUE, Some(DEAD), limits);
        Self { story, now: 0 }
    }

    fn tell(&mut self, happening: &LocalEvent) {
        self.now += 1;
        self.story.observer()(at(self.now), happening);
    }

    fn sent(&mut self, id: &str) {
        self.sent_to(QUEUE, id, &format!("body of {id}"), Map::new());
    }

    fn sent_to(&mut self, queue: &str, id: &str, body: &str, attributes: Map<String, Value>) {
        self.tell(&LocalEvent::Sent {
            queue: queue.to_owned(),
            message_id: id.to_owned(),
            body: body.to_owned(),
            attributes,
            group_id: None,
            visible_at: at(self.now + 1),
        });
    }

    fn received(&mut self, id: &str, receive_count: u32) {
        self.tell(&LocalEvent::Received {
            queue: QUEUE.to_owned(),
            message_id: id.to_owned(),
            receive_count,
            visible_at: at(self.now + 31),
        });
    }

    fn sent_and_received(&mut self, ids: &[&str]) {
        for id in ids {
            self.sent(id);
            self.received(id, 1);
        }
    }

    fn invoked(&mut self, environment: u32, request_id: &str, ids: &[&str]) {
        self.tell(&LocalEvent::Invoked {
            environment,
            request_id: request_id.to_owned(),
            queue: QUEUE.to_owned(),
            message_ids: owned(ids),
        });
    }

    fn record(&mut self, environment: u32, id: &str, outcome: &str) {
        let reason = (outcome == "terminal").then_some("the card was declined");
        let line = json!({
            "message_id": id, "outcome": outcome, "duration_ms": 3.0, "key": "orders#abc",
            "reason": reason,
        });
        let record: RecordLine = serde_json::from_value(line).unwrap();
        self.tell(&LocalEvent::Record {
            environment,
            record,
        });
    }

    fn logged(&mut self, environment: u32, line: &str) {
        let line = line.to_owned();
        self.tell(&LocalEvent::Logged { environment, line });
    }

    fn answered(&mut self, environment: u32, request_id: &str, failures: &[&str]) {
        let failures = owned(failures);
        self.tell(&LocalEvent::Answered {
            environment,
            request_id: request_id.to_owned(),
            answer: Answer::Read { failures },
        });
    }

    fn deleted(&mut self, id: &str) {
        let (queue, message_id) = (QUEUE.to_owned(), id.to_owned());
        self.tell(&LocalEvent::Deleted { queue, message_id });
    }

    fn purged(&mut self) {
        let queue = QUEUE.to_owned();
        self.tell(&LocalEvent::Purged { queue });
    }

    fn whole(&self) -> Value {
        let html = self.story.report();
        let start = r#"<script type="application/json" id="data">"#;
        let (_, data) = html.split_once(start).unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        serde_json::from_str::<Value>(data).unwrap()["report"].take()
    }

    /// The details of the messages with this id, oldest first.
    fn details(&self, id: &str) -> Vec<Value> {
        let whole = self.whole();
        let details = whole["details"].as_object().unwrap().values();
        let mut of_id: Vec<_> = details.filter(|one| one["id"] == id).cloned().collect();
        of_id.sort_by_key(|one| one["number"].as_u64());
        of_id
    }

    fn detail(&self, id: &str) -> Value {
        let [detail] = self.details(id).try_into().unwrap();
        detail
    }

    /// The ids of the messages, and how many unfinished ones the story has forgotten.
    fn kept(&self) -> (Vec<String>, u64) {
        let overview = &self.whole()["overview"];
        let messages = overview["messages"].as_array().unwrap().iter();
        let ids = messages.map(|one| one["id"].as_str().unwrap().to_owned());
        let unfinished = overview["forgotten"]["unfinished"].as_u64();
        (ids.collect(), unfinished.unwrap())
    }
}

fn owned(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn timeline(detail: &Value) -> Vec<&str> {
    let entries = detail["entries"].as_array().unwrap();
    let kinds = entries.iter().map(|entry| entry["what"].as_str().unwrap());
    kinds.collect()
}

fn limits(messages: usize, lines: usize, bytes: usize) -> Limits {
    let limit = |count| NonZeroUsize::new(count).unwrap();
    Limits {
        messages: limit(messages),
        lines: limit(lines),
        bytes: limit(bytes),
    }
}

#[test]
fn a_message_is_told_from_when_it_was_sent_until_it_was_deleted() {
    let mut teller = Teller::new(Limits::default());
    teller.sent("m-1");
    assert_eq!(teller.detail("m-1")["state"], "queued");
    teller.received("m-1", 1);
    teller.invoked(2, "request-1", &["m-1"]);
    assert_eq!(teller.detail("m-1")["state"], "in_flight");
    teller.record(2, "m-1", "processed");
    teller.answered(2, "request-1", &[]);
    teller.deleted("m-1");

    let told = teller.detail("m-1");
    assert_eq!(told["state"], "done");
    assert_eq!(told["outcome"], "processed");
    assert_eq!(told["key"], "orders#abc");
    assert_eq!(told["body"], "body of m-1");
    let kinds = ["sent", "received", "record", "answered", "deleted"];
    assert_eq!(timeline(&told), kinds);
    assert_eq!(told["entries"][1]["environment"], 2);
    assert_eq!(told["entries"][1]["request_id"], "request-1");
    assert_eq!(told["entries"][1]["at"], 1_000_002_000_u64, "milliseconds");
}

#[test]
fn a_batch_that_failed_is_returned_whole_and_says_why() {
    let mut teller = Teller::new(Limits::default());
    teller.sent_and_received(&["m-1"]);
    teller.invoked(1, "request-1", &["m-1"]);
    teller.tell(&LocalEvent::EnvironmentEnded {
        environment: 1,
        reason: "killed".to_owned(),
    });
    teller.tell(&LocalEvent::Answered {
        environment: 1,
        request_id: "request-1".to_owned(),
        answer: Answer::Failed {
            reason: "it timed out".to_owned(),
        },
    });
    let told = teller.detail("m-1");
    assert_eq!(told["state"], "returned");
    assert_eq!(told["outcome"], "failed");
    let kinds = ["sent", "received", "environment_ended", "answered"];
    assert_eq!(timeline(&told), kinds);
    assert_eq!(told["entries"][3]["reason"], "it timed out");
}

#[test]
fn messages_of_one_id_are_told_apart() {
    let mut teller = Teller::new(Limits::default());
    teller.sent("same");
    teller.sent("same");
    teller.received("same", 1);
    teller.received("same", 1);
    teller.invoked(1, "request-1", &["same", "same"]);
    teller.record(1, "same", "processed");
    teller.record(1, "same", "duplicate");
    teller.answered(1, "request-1", &[]);
    teller.deleted("same");
    teller.deleted("same");

    let [first, second] = teller.details("same").try_into().unwrap();
    assert_eq!(first["outcome"], "processed");
    assert_eq!(second["outcome"], "duplicate");
    let kinds = ["sent", "received", "record", "answered", "deleted"];
    for told in [&first, &second] {
        assert_eq!(timeline(told), kinds);
        assert_eq!(told["state"], "done");
    }
    assert_eq!(first["copies"][0]["number"], second["number"]);

    // The receive count shows which one came back.
    let mut teller = Teller::new(Limits::default());
    teller.sent_and_received(&["same"]);
    teller.sent("same");
    teller.received("same", 2);
    let receives = teller.details("same");
    let receives: Vec<_> = receives.iter().map(|one| &one["receives"]).collect();
    assert_eq!(receives, [2, 0]);
}

#[test]
fn an_effect_stays_counted_when_a_later_delivery_is_stopped_as_a_duplicate() {
    let mut teller = Teller::new(limits(1, 100, 1 << 20));
    teller.sent("m-1");
    for (count, outcome) in [(1, "processed"), (2, "duplicate"), (3, "in_progress")] {
        teller.received("m-1", count);
        teller.invoked(1, &format!("request-{count}"), &["m-1"]);
        teller.record(1, "m-1", outcome);
    }
    teller.deleted("m-1");
    teller.invoked(2, "request-copy", &["m-1"]);
    teller.record(2, "m-1", "duplicate");
    let told = teller.detail("m-1");
    assert_eq!(told["effects"], 1);
    assert_eq!(told["duplicates"], 2);

    // A forgotten message counts once among those with an effect, and once among those with a duplicate.
    teller.sent("m-2");
    let forgotten = &teller.whole()["overview"]["forgotten"];
    for count in ["sent", "effects", "duplicates", "done"] {
        assert_eq!(forgotten[count], 1, "{count}");
    }
}

/// One of the events of a message after it was sent.
fn tell_any(teller: &mut Teller, request: usize, event: usize, id: &str, environment: u32) {
    let (queue, message_id) = (QUEUE.to_owned(), id.to_owned());
    let visible_at = at(teller.now + 31);
    let request_id = format!("request-{request}");
    match event {
        0 => teller.received(id, environment),
        1 => teller.invoked(environment, &request_id, &[id]),
        2 => teller.record(environment, id, "processed"),
        3 => teller.answered(environment, &format!("request-{}", request - 1), &[id]),
        4 => teller.deleted(id),
        5 => teller.tell(&LocalEvent::VisibilityChanged {
            queue,
            message_id,
            visible_at,
        }),
        6 => teller.tell(&LocalEvent::Expired { queue, message_id }),
        7 => teller.tell(&LocalEvent::DeadLettered {
            queue,
            to: DEAD.to_owned(),
            message_id,
        }),
        _ => teller.tell(&LocalEvent::EnvironmentEnded {
            environment,
            reason: "killed".to_owned(),
        }),
    }
}

proptest! {
    #[test]
    fn in_any_order_of_events_a_message_has_one_card_and_its_end_is_final(
        events in vec((0..9_usize, 0..3_usize, 1..4_u32), 0..40),
    ) {
        let mut teller = Teller::new(Limits::default());
        let ids = ["m-0", "m-1", "m-2"];
        for id in ids {
            teller.sent(id);
        }
        let mut ended = [None; 3];
        for (request, (event, message, environment)) in events.into_iter().enumerate() {
            tell_any(&mut teller, request + 1, event, ids[message], environment);
            let end = match event {
                4 => Some("done"),
                6 => Some("expired"),
                7 => Some("dead_lettered"),
                _ => None,
            };
            ended[message] = ended[message].or(end);
        }
        for (id, end) in ids.into_iter().zip(ended) {
            let told = teller.detail(id);
            prop_assert_eq!(&told["body"], &format!("body of {id}"));
            prop_assert_eq!(timeline(&told)[0], "sent");
            if let Some(end) = end {
                prop_assert_eq!(&told["state"], end);
            }
        }
    }
}

#[test]
fn a_copy_that_is_handed_out_after_its_original_was_deleted_stands_in_the_originals_timeline() {
    let mut teller = Teller::new(Limits::default());
    teller.sent_and_received(&["m-1"]);
    teller.invoked(1, "request-1", &["m-1"]);
    teller.record(1, "m-1", "processed");
    teller.answered(1, "request-1", &[]);
    teller.deleted("m-1");
    teller.invoked(2, "request-2", &["m-1"]);
    teller.record(2, "m-1", "duplicate");
    teller.answered(2, "request-2", &[]);
    let told = teller.detail("m-1");
    assert_eq!(told["state"], "done");
    assert_eq!(told["outcome"], "processed");
    let kinds = ["sent", "received", "record", "answered", "deleted"];
    assert_eq!(timeline(&told)[..5], kinds);
    assert_eq!(timeline(&told)[5..], ["invoked", "record", "answered"]);
}

#[test]
fn a_log_line_belongs_to_the_message_it_names_and_else_to_its_whole_invocation() {
    let mut teller = Teller::new(Limits::default());
    teller.logged(1, "before any invocation");
    teller.sent_and_received(&["m-1", "m-2"]);
    teller.invoked(1, "request-1", &["m-1", "m-2"]);
    let mine = r#"{"message": "mine", "message_id": "m-1"}"#;
    teller.logged(1, mine);
    teller.logged(1, "not JSON");
    teller.answered(1, "request-1", &[]);
    teller.logged(1, "between invocations");
    let late = r#"{"message": "late", "function_request_id": "request-1"}"#;
    teller.logged(1, late);

    let lines = |id| {
        let told = teller.detail(id);
        let entries = told["entries"].as_array().unwrap().iter();
        let logged = entries.filter(|entry| entry["what"] == "logged");
        let lines = logged.map(|entry| (entry["line"].clone(), entry["own"].clone()));
        lines.collect::<Vec<_>>()
    };
    let line = |line: &str, own: bool| (json!(line), json!(own));
    let (shared, late) = (line("not JSON", false), line(late, false));
    assert_eq!(lines("m-2"), [shared.clone(), late.clone()]);
    assert_eq!(lines("m-1"), [line(mine, true), shared, late]);
    let whole = teller.whole();
    let function = whole["overview"]["function"].as_array().unwrap();
    let function: Vec<_> = function.iter().map(|entry| &entry["line"]).collect();
    assert_eq!(function, ["before any invocation", "between invocations"]);
}

#[test]
fn a_record_line_that_is_read_late_still_finds_its_message() {
    let mut teller = Teller::new(Limits::default());
    teller.sent_and_received(&["m-1", "m-2"]);
    teller.invoked(1, "request-1", &["m-1"]);
    teller.answered(1, "request-1", &[]);
    teller.deleted("m-1");
    teller.invoked(1, "request-2", &["m-2"]);
    teller.record(1, "m-1", "processed");
    assert_eq!(teller.detail("m-1")["outcome"], "processed");
    assert_eq!(teller.detail("m-1")["state"], "done");
    assert_eq!(teller.detail("m-2")["outcome"], Value::Null);
}

#[test]
fn a_dead_letter_that_the_function_sent_is_linked_to_its_message_and_has_its_reason() {
    let mut teller = Teller::new(Limits::default());
    teller.sent_and_received(&["m-1"]);
    let of = json!({"DataType": "String", "StringValue": "m-1"});
    let attributes = Map::from_iter([("sqs-once-message-id".to_owned(), of)]);
    teller.sent_to(DEAD, "letter", "{}", attributes);
    assert_eq!(teller.detail("letter")["reason"], Value::Null);
    // The function logs the outcome after it has sent the dead letter.
    teller.record(1, "m-1", "terminal");
    teller.deleted("m-1");
    let (original, letter) = (teller.detail("m-1"), teller.detail("letter"));
    assert_eq!(letter["state"], "dead_lettered");
    // A producer has sent only one of the two.
    assert_eq!(letter["goes_on"], true);
    assert_eq!(original["goes_on"], false);
    assert_eq!(letter["from"]["number"], original["number"]);
    assert_eq!(letter["reason"], "the card was declined");
    assert_eq!(original["to"]["message_id"], "letter");
    let kinds = ["sent", "received", "dead_letter_sent", "record", "deleted"];
    assert_eq!(timeline(&original), kinds);
}

#[test]
fn a_purge_ends_what_the_queue_had() {
    let mut teller = Teller::new(Limits::default());
    for id in ["done", "open"] {
        teller.sent(id);
    }
    teller.deleted("done");
    teller.purged();
    assert_eq!(teller.detail("done")["state"], "done");
    assert_eq!(teller.detail("open")["state"], "purged");
}

#[test]
fn an_expiry_and_a_fault_stand_in_the_timeline() {
    let (queue, message_id) = (QUEUE.to_owned(), "m-1".to_owned());
    let fault = LocalEvent::Fault {
        what: "the answer was dropped".to_owned(),
        message_ids: owned(&["m-1", "unknown"]),
    };
    let expired = LocalEvent::Expired { queue, message_id };
    for (happening, kind, state) in [(expired, "expired", "expired"), (fault, "fault", "queued")] {
        let mut teller = Teller::new(Limits::default());
        teller.sent("m-1");
        teller.tell(&happening);
        let told = teller.detail("m-1");
        assert_eq!(told["state"], state, "{kind}");
        assert_eq!(timeline(&told), ["sent", kind]);
    }
}

#[test]
fn a_story_that_begins_in_the_middle_says_so() {
    let mut teller = Teller::new(Limits::default());
    teller.received("m-1", 3);
    let told = teller.detail("m-1");
    assert_eq!(told["receives"], 3);
    assert_eq!(timeline(&told), ["seen_first", "received"]);
}

#[test]
fn the_oldest_finished_message_is_forgotten_first_and_counted() {
    let mut teller = Teller::new(limits(3, 100, 1 << 20));
    for id in ["open", "second", "first"] {
        teller.sent(id);
    }
    teller.deleted("first");
    teller.deleted("second");
    teller.sent("new");
    assert_eq!(teller.details("first").len(), 0);
    teller.sent("newer");
    teller.sent("newest");
    assert_eq!(teller.kept(), (owned(&["new", "newer", "newest"]), 1));
    assert_eq!(teller.whole()["overview"]["forgotten"]["done"], 2);

    // A later event of a forgotten message must not count it twice.
    teller.received("open", 1);
    let (messages, unfinished) = teller.kept();
    assert_eq!((messages.len(), unfinished), (3, 1));
    teller.deleted("open");
    teller.sent("another");
    assert_eq!(teller.kept().1, 1);
    teller.purged();
    assert_eq!(teller.kept().1, 0);
}

#[test]
fn dead_letters_are_forgotten_last() {
    let mut teller = Teller::new(limits(2, 10, 1 << 20));
    teller.sent_to(DEAD, "dead", "{}", Map::new());
    for id in ["m-1", "m-2", "m-3"] {
        teller.sent(id);
    }
    assert_eq!(teller.kept(), (owned(&["dead", "m-3"]), 2));
}

#[test]
fn a_timeline_keeps_its_last_entries() {
    let mut teller = Teller::new(limits(10, 5, 1 << 20));
    teller.sent("m-1");
    for count in 1..=20 {
        teller.received("m-1", count);
        teller.invoked(1, &format!("request-{count}"), &["m-1"]);
        for line in 0..10 {
            teller.logged(1, &format!("{count}/{line}"));
        }
    }
    let told = teller.detail("m-1");
    let entries = told["entries"].as_array().unwrap();
    let received = entries.iter().filter(|one| one["what"] == "received");
    let counts: Vec<_> = received.map(|one| &one["receive_count"]).collect();
    assert_eq!(counts, [16, 17, 18, 19, 20]);
    let logged = entries.iter().filter(|one| one["what"] == "logged");
    assert_eq!(logged.count(), 5 * 5, "five lines of five invocations");
    assert_eq!(told["entries_forgotten"], 16 + 5 * 5);
}

#[test]
fn bytes_are_bounded_and_given_back() {
    let mut teller = Teller::new(limits(1000, 100, 100_000));
    for number in 0..200 {
        let id = format!("m-{number}");
        teller.sent_to(QUEUE, &id, &"x".repeat(10_000), Map::new());
        teller.received(&id, 1);
        teller.invoked(1, &id, &[&id]);
        teller.logged(1, &"y".repeat(1_000_000));
        teller.answered(1, &id, &[]);
        teller.deleted(&id);
    }
    let html = teller.story.report();
    assert!(html.len() < 300_000, "{} bytes", html.len());
    let kept = teller.whole()["details"].as_object().unwrap().len();
    // Forgotten messages must not count towards the size of later ones.
    assert!((3..=10).contains(&kept), "{kept} are kept");
    assert!(teller.details("m-199").len() == 1, "the last is there");
}

#[test]
fn no_body_and_no_line_ends_the_script_it_stands_in() {
    let mut teller = Teller::new(Limits::default());
    let odd = "</script><script>alert(1)</script><!--{{nonce}}{{script}}";
    teller.sent_to(QUEUE, "</script>", odd, Map::new());
    teller.logged(1, odd);
    let html = teller.story.report();
    let scripts = html.matches("</script>").count();
    assert_eq!(scripts, 2, "the data's and the page's");
    assert_eq!(html.matches("alert(1)<").count(), 0);
    assert_eq!(teller.detail("</script>")["body"], odd);
}

#[test]
fn a_message_in_an_envelope_is_found_and_shown_by_its_content() {
    let mut teller = Teller::new(Limits::default());
    let order = r#"{"order_id": "o-7", "article_id": "a-1"}"#;
    let sns = |message: &str| json!({"TopicArn": "arn:t", "MessageId": "5", "Message": message});
    let event = json!({"id": "e-1", "source": "shop", "detail": {"order_id": "o-8"}});
    let detail = Some(r#"{"order_id":"o-8"}"#);
    for (body, opened, title) in [
        (order.to_owned(), None, json!("o-7")),
        (sns(order).to_string(), Some(order), json!("o-7")),
        (sns(&event.to_string()).to_string(), detail, json!("o-8")),
        (sns("no JSON").to_string(), Some("no JSON"), Value::Null),
    ] {
        teller.sent_to(QUEUE, &body, &body, Map::new());
        let told = teller.detail(&body);
        assert_eq!((&told["opened"], &told["title"]), (&json!(opened), &title));
        assert_eq!(told["preview"], opened.unwrap_or(order), "{body}");
    }
}
