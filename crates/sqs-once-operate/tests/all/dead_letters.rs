//! Redrives between in-process queues, with a connection cut at every request.

use std::collections::BTreeSet;
use std::iter::repeat_n;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use network_for_tests::{Turn, Wire};
use serde_json::{Value, json};
use sqs_once::BusinessKey;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::unstable::JsonPointer;
use sqs_once_local::{
    LocalDynamoDb, LocalSqs, NewMessage, QueueSettings, Queues, Redrive, TableDescription,
};
use sqs_once_operate::{
    DeadLetter, DeadLetters, Error, Fate, KeyFrom, Keys, PartFrom, Selection, Standing, Tally,
};

use crate::{dynamodb, payments, put, sqs, store};

/// Two queues. The second is the dead-letter queue of the first.
struct Account {
    sqs: LocalSqs,
    suffix: &'static str,
}

impl Account {
    async fn new(suffix: &'static str) -> Self {
        let mut queues = Queues::default();
        let dlq = format!("orders-dlq{suffix}");
        queues.create(&dlq, QueueSettings::default()).unwrap();
        let settings = QueueSettings {
            redrive: Some(Redrive {
                to: dlq,
                max_receive_count: 3,
            }),
            ..QueueSettings::default()
        };
        let source = format!("orders{suffix}");
        queues.create(&source, settings).unwrap();
        let sqs = LocalSqs::start(queues).await.unwrap();
        Self { sqs, suffix }
    }

    /// Dead letters, each with its body as ID, in the group of the body's first letter.
    async fn with(suffix: &'static str, bodies: &[&str]) -> Self {
        let account = Self::new(suffix).await;
        for body in bodies {
            account.put(letter(body));
        }
        account
    }

    fn put(&self, message: NewMessage) {
        let mut queues = self.sqs.queues();
        let sent = queues.send(&self.dlq(), message, SystemTime::now());
        sent.unwrap();
    }

    fn dlq(&self) -> String {
        format!("orders-dlq{}", self.suffix)
    }

    fn source(&self) -> String {
        format!("orders{}", self.suffix)
    }

    fn bodies(&self, queue: &str) -> Vec<String> {
        let queues = self.sqs.queues();
        let messages = queues.messages(queue).unwrap();
        messages.map(|message| message.body.clone()).collect()
    }

    fn in_flight(&self) -> usize {
        let queues = self.sqs.queues();
        queues.in_flight(&self.dlq(), SystemTime::now()).unwrap()
    }

    /// The letters at an endpoint of SQS.
    fn letters(&self, keys: Option<Keys>, endpoint: &str) -> DeadLetters {
        DeadLetters::new(sqs(endpoint), self.sqs.url(&self.dlq()), keys)
    }

    fn reliable(&self, keys: Option<Keys>) -> DeadLetters {
        self.letters(keys, &self.sqs.endpoint())
    }

    /// A network on which this request, counted from 0, is lost. Later ones take the turn `then`.
    async fn cut(&self, at: usize, lost: Turn, then: Turn) -> (Wire, DeadLetters) {
        let wire = Wire::to(&self.sqs.endpoint()).await;
        wire.next(repeat_n(Turn::Pass, at).chain([lost]));
        wire.then(then);
        let letters = self.letters(None, &wire.endpoint());
        (wire, letters)
    }

    async fn redrive_all(&self, letters: &DeadLetters) -> (Tally, Result<(), Error>) {
        self.redrive(letters, false, |_, _| {}).await
    }

    async fn redrive(
        &self,
        letters: &DeadLetters,
        even_completed: bool,
        each: impl FnMut(&DeadLetter, Fate),
    ) -> (Tally, Result<(), Error>) {
        let (to, all) = (self.sqs.url(&self.source()), Selection::default());
        let run = letters.redrive(&to, &all, even_completed, &|| false, |_| true, each);
        run.await
    }

    async fn assert_redriven(&self) {
        let (_, ended) = self.redrive_all(&self.reliable(None)).await;
        ended.unwrap();
    }

    /// Makes all in-flight messages visible.
    fn hold_passes(&self) {
        let (now, mut queues) = (SystemTime::now(), self.sqs.queues());
        let later = now + Duration::from_secs(3600);
        loop {
            let received = queues.receive(&self.dlq(), 100, later).unwrap();
            if received.is_empty() {
                return;
            }
            for message in received {
                let handle = &message.receipt_handle;
                let visible = queues.change_visibility(&self.dlq(), handle, Duration::ZERO, now);
                visible.unwrap();
            }
            if queues.in_flight(&self.dlq(), now).unwrap() == 0 {
                return;
            }
        }
    }
}

const BODIES: [&str; 4] = ["a1", "b1", "a2", "b2"];

/// A message with its body as ID, in the group of the body's first letter.
fn letter(body: &str) -> NewMessage {
    let message = NewMessage::new(format!("id-{body}"), body);
    message.in_group(&body[..1], format!("first-{body}"))
}

fn text(value: &str) -> Value {
    json!({"DataType": "String", "StringValue": value})
}

/// A message with an attribute that names its key.
fn saying_its_key(body: &str) -> NewMessage {
    let mut message = letter(body);
    let key = text(&format!("payments#{body}"));
    message.attributes.insert("sqs-once-key".to_owned(), key);
    message
}

/// The state and the key of every message.
async fn looked(letters: &DeadLetters) -> (Vec<Standing>, Vec<Option<ItemId>>) {
    let mut seen = Vec::new();
    let each = |letter: &DeadLetter| {
        seen.push((letter.standing, letter.key().cloned()));
        true
    };
    let all = Selection::default();
    letters.look(&all, &|| false, each).await.unwrap();
    seen.into_iter().unzip()
}

fn set(bodies: Vec<String>) -> BTreeSet<String> {
    bodies.into_iter().collect()
}

/// An interrupted run and a complete one. Returns whether the first run reached its end.
async fn cut_and_resumed(suffix: &'static str, at: usize, lost: Turn, then: Turn) -> bool {
    let case = format!("{suffix:?} request {at}: {lost:?}, then {then:?}");
    let account = Account::with(suffix, &BODIES).await;
    let all: BTreeSet<String> = BODIES.map(str::to_owned).into();
    let (_wire, letters) = account.cut(at, lost, then).await;
    let (first, ended) = account.redrive_all(&letters).await;
    let mut somewhere = set(account.bodies(&account.dlq()));
    somewhere.extend(account.bodies(&account.source()));
    assert_eq!(somewhere, all, "{case}: a message is lost");

    // The client never got the receipts in a lost answer.
    account.hold_passes();
    let (second, resumed) = account.redrive_all(&account.reliable(None)).await;
    resumed.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(account.bodies(&account.dlq()), [] as [String; 0], "{case}");
    let arrived = account.bodies(&account.source());
    assert_eq!(set(arrived.clone()), all, "{case}");
    assert!(first.redriven + second.redriven <= BODIES.len(), "{case}");
    if suffix == ".fifo" {
        assert_eq!(arrived, BODIES, "{case}: each once, in order");
    } else {
        // A chunk of messages may be sent twice, if they were not deleted.
        assert!(arrived.len() <= BODIES.len() + 4, "{case}: {arrived:?}");
    }
    ended.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_that_is_cut_at_any_request_loses_nothing_and_can_be_run_again() {
    for suffix in ["", ".fifo"] {
        let account = Account::with(suffix, &BODIES).await;
        let (wire, letters) = account.cut(0, Turn::Pass, Turn::Pass).await;
        account.redrive_all(&letters).await.1.unwrap();
        let requests = wire.seen().len();
        // Two receives, four sends and four deletes.
        assert_eq!(requests, 10);
        let cases = (0..requests).flat_map(|at| {
            let losses = [Turn::LoseRequest, Turn::LoseAnswer].into_iter();
            // Only this request, or all later ones too, as if the process had died.
            losses.flat_map(move |lost| {
                [Turn::Pass, lost.clone()].map(|then| (at, lost.clone(), then))
            })
        });
        let runs =
            cases.map(|(at, lost, then)| tokio::spawn(cut_and_resumed(suffix, at, lost, then)));
        for run in runs.collect::<Vec<_>>() {
            assert!(!run.await.unwrap(), "nobody has heard of the cut");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_keeps_the_order_of_fifo_queues_whose_urls_end_in_a_slash() {
    let account = Account::with(".fifo", &BODIES).await;
    let [from, to] = [account.dlq(), account.source()].map(|queue| account.sqs.url(&queue) + "/");
    let letters = DeadLetters::new(sqs(&account.sqs.endpoint()), from, None);
    assert!(letters.is_fifo());
    let all = Selection::default();
    let run = letters.redrive(&to, &all, false, &|| false, |_| true, |_, _| {});
    run.await.1.unwrap();
    assert_eq!(account.bodies("orders.fifo"), BODIES);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_deletes_no_message_whose_copy_has_no_message_id() {
    let account = Account::with("", &BODIES).await;
    // The four requests after the first are the copies.
    let nothing = Turn::Answer(200, "{}".to_owned());
    let (_wire, letters) = account.cut(1, nothing, Turn::Pass).await;
    let error = account.redrive_all(&letters).await.1.unwrap_err();
    assert!(error.to_string().contains("sqs:SendMessage"), "{error}");
    account.hold_passes();
    let mut somewhere = account.bodies(&account.dlq());
    assert_eq!(somewhere.len(), 1);
    somewhere.extend(account.bodies(&account.source()));
    assert_eq!(set(somewhere), set(BODIES.map(str::to_owned).to_vec()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_keeps_what_its_producer_sent_and_leaves_the_failure_behind() {
    let account = Account::new("").await;
    let mut message = NewMessage::new("m-1", "{}");
    message.attributes = json!({
        "tenant": text("seven"),
        "weight": {"DataType": "Number.float", "StringValue": "1.5"},
        "blob": {"DataType": "Binary", "BinaryValue": "aGVsbG8="},
        "sqs-once-reason": text("the card was refused"),
        "sqs-once-key": text("payments#0123"),
        "sqs-once-source-queue": text("arn:aws:sqs:eu-central-1:123456789012:orders"),
    })
    .as_object()
    .unwrap()
    .clone();
    message.group_id = Some("tenant-7".to_owned());
    message.trace_header = Some("Root=1-5759e988-bd862e3fe1be46a994272793".to_owned());
    account.put(message.clone());
    account.assert_redriven().await;

    let queues = account.sqs.queues();
    let [arrived] = queues.messages("orders").unwrap().collect::<Vec<_>>()[..] else {
        panic!("one message");
    };
    let own = |name: &String| !name.starts_with("sqs-once-");
    message.attributes.retain(|name, _| own(name));
    assert_eq!(arrived.body, "{}");
    assert_eq!(arrived.attributes, message.attributes);
    assert_eq!(arrived.group_id, message.group_id);
    assert_eq!(arrived.trace_header, message.trace_header);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_that_restarts_counts_and_is_refused_without_room_for_a_reason() {
    let ended = (
        "sqs-once-reason",
        "the execution 0123 ended FAILED: redrive it",
    );
    // Nine attributes of its producer, and the tenth.
    for (tenth, restarts) in [
        (ended, Some("1")),
        (("sqs-once-reason", "no luck"), Some("none")),
        // The first restart has taken the place of the reason.
        (("execution-restarts", "1"), None),
        (("own-9", "x"), None),
    ] {
        let account = Account::new("").await;
        let mut message = letter("a1");
        let attributes = (0..9).map(|at| (format!("own-{at}"), text("x")));
        message.attributes = attributes.collect();
        let tenth = (tenth.0.to_owned(), text(tenth.1));
        message.attributes.extend([tenth]);
        account.put(message);
        let letters = account.reliable(None).restarting(true);
        let (tally, ended) = account.redrive_all(&letters).await;
        assert_eq!(tally.redriven, usize::from(restarts.is_some()));
        ended.unwrap();
        let Some(restarts) = restarts else {
            let reason = &tally.unsendable["id-a1"];
            assert!(reason.contains("no room for a reason"), "{reason}");
            continue;
        };
        let queues = account.sqs.queues();
        let arrived = queues.messages("orders").unwrap().next().unwrap();
        let value = arrived.attributes.get("execution-restarts");
        let value = value.map_or("none", |it| it["StringValue"].as_str().unwrap());
        assert_eq!(value, restarts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_sqs_refuses_stays_with_those_behind_it_and_the_others_are_sent() {
    for (suffix, stay) in [("", &["a1"][..]), (".fifo", &["a1", "a2"])] {
        let account = Account::new(suffix).await;
        let mut refused = letter("a1");
        refused.body.push('\u{1}');
        account.put(refused);
        BODIES[1..]
            .iter()
            .for_each(|body| account.put(letter(body)));
        let mut fates = BTreeSet::new();
        let each = |letter: &DeadLetter, fate: Fate| {
            fates.insert(format!("{} {fate:?}", &letter.body()[..2]));
        };
        let letters = account.reliable(None);
        let (tally, ended) = account.redrive(&letters, false, each).await;
        ended.unwrap();
        let left = account.bodies(&account.dlq());
        assert!(left.iter().map(|body| &body[..2]).eq(stay.iter().copied()));
        assert_eq!(account.in_flight(), 0);
        let count = stay.len();
        assert_eq!((tally.redriven, tally.behind), (4 - count, count - 1));
        let reason = &tally.unsendable["id-a1"];
        assert!(reason.contains("Invalid characters"), "{reason}");
        let a2 = ["a2 Redriven", "a2 Behind"][count - 1];
        for fate in ["a1 Unsendable", a2, "b1 Redriven", "b2 Redriven"] {
            assert!(fates.contains(fate), "{fates:?}");
        }
    }
}

/// SQS accepts a message with a deduplication ID of the last five minutes but does not deliver it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_soon_after_the_first_sending_arrives() {
    let account = Account::new(".fifo").await;
    let first = NewMessage::new("m-1", "a1").in_group("a", "first");
    account.put(first.clone());
    let before = NewMessage {
        id: "m-0".to_owned(),
        ..first
    };
    {
        let (now, mut queues) = (SystemTime::now(), account.sqs.queues());
        queues.send("orders.fifo", before, now).unwrap();
        let received = queues.receive("orders.fifo", 1, now).unwrap();
        let handle = &received[0].receipt_handle;
        queues.delete("orders.fifo", handle, now).unwrap();
    }
    account.assert_redriven().await;
    assert_eq!(account.bodies("orders.fifo"), ["a1"]);
}

/// A table in which these keys are completed.
async fn completed(keys: &[&str]) -> (LocalDynamoDb, Keys) {
    let (dynamodb, store) = dynamodb(&TableDescription::default()).await;
    for key in keys {
        let item =
            json!({"id": {"S": key}, "status": {"S": "COMPLETED"}, "expiration": {"N": "1"}});
        put(&dynamodb, item);
    }
    (dynamodb, Keys::new(store))
}

/// A table in which this key is completed for a payload.
async fn completed_for(key: &ItemId, payload: &str) -> (LocalDynamoDb, Keys) {
    let (dynamodb, store) = dynamodb(&TableDescription::default()).await;
    let fingerprint = Fingerprint::from_body(payload);
    put(&dynamodb, completion(key, Some(fingerprint.as_str())));
    (dynamodb, Keys::new(store))
}

fn completion(key: &ItemId, validation: Option<&str>) -> Value {
    let mut item = json!({"id": {"S": key.as_str()}, "status": {"S": "COMPLETED"}});
    if let Some(validation) = validation {
        item["validation"] = json!({"S": validation});
    }
    item
}

/// A message that SQS moves has its producer's attributes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_a_producer_claims_is_not_believed() {
    let account = Account::new("").await;
    {
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
        let mut queues = account.sqs.queues();
        let sent = queues.send("orders", saying_its_key("a1"), an_hour_ago);
        sent.unwrap();
        for times in 0..4 {
            let at = an_hour_ago + times * Duration::from_secs(600);
            queues.receive("orders", 10, at).unwrap();
        }
        assert_eq!(queues.len("orders-dlq").unwrap(), 1);
    }
    let (_dynamodb, keys) = completed(&["payments#a1"]).await;
    let seen = looked(&account.reliable(Some(keys))).await;
    assert_eq!(seen, (vec![Standing::UnknownKey], vec![None]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_completed_stays_and_what_is_behind_it_in_its_group() {
    let account = Account::new(".fifo").await;
    for body in BODIES {
        account.put(saying_its_key(body));
    }
    // The record has expired, but a redrive would repeat the effect.
    let (_dynamodb, keys) = completed(&["payments#a1"]).await;
    let letters = account.reliable(Some(keys));
    let mut fates = Vec::new();
    let each = |letter: &DeadLetter, fate| {
        fates.push((letter.body().to_owned(), letter.standing, fate));
    };
    let (tally, ended) = account.redrive(&letters, false, each).await;
    ended.unwrap();
    let expected = [
        ("a1".to_owned(), Standing::Completed, Fate::Refused),
        ("a2".to_owned(), Standing::NeverStarted, Fate::Behind),
        ("b1".to_owned(), Standing::NeverStarted, Fate::Redriven),
        ("b2".to_owned(), Standing::NeverStarted, Fate::Redriven),
    ];
    assert_eq!(fates, expected);
    assert_eq!((tally.redriven, tally.refused, tally.behind), (2, 1, 1));
    assert_eq!(account.bodies("orders-dlq.fifo"), ["a1", "a2"]);
    assert_eq!(account.in_flight(), 0);

    let (tally, ended) = account.redrive(&letters, true, |_, _| {}).await;
    ended.unwrap();
    assert_eq!(tally.redriven, 2);
    assert_eq!(account.bodies("orders.fifo"), ["b1", "b2", "a1", "a2"]);
}

/// Several queues may share a dead-letter queue, and have groups of one name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_stays_holds_those_of_its_group_that_may_be_of_its_queue() {
    for (first, then, fate) in [
        (Some("returns"), Some("orders"), Fate::Redriven),
        (Some("orders"), Some("orders"), Fate::Behind),
        (Some("orders"), None, Fate::Behind),
        (None, Some("orders"), Fate::Behind),
    ] {
        let account = Account::new(".fifo").await;
        for (body, queue) in [("a1", first), ("a2", then)] {
            let mut message = saying_its_key(body);
            let arn =
                queue.map(|queue| format!("arn:aws:sqs:eu-central-1:000000000000:{queue}.fifo"));
            let source = arn.map(|arn| ("sqs-once-source-queue".to_owned(), text(&arn)));
            message.attributes.extend(source);
            account.put(message);
        }
        let (_dynamodb, keys) = completed(&["payments#a1"]).await;
        let mut fates = Vec::new();
        let each = |_: &_, fate| fates.push(fate);
        let letters = account.reliable(Some(keys));
        let (_, ended) = account.redrive(&letters, false, each).await;
        ended.unwrap();
        assert_eq!(fates, [Fate::Refused, fate], "{first:?} {then:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redrive_that_is_stopped_finishes_a_message_and_puts_the_rest_back() {
    let account = Account::with(".fifo", &BODIES).await;
    let letters = account.reliable(None);
    let to = account.sqs.url("orders.fifo");
    let done = AtomicUsize::new(0);
    let stop = || done.load(Ordering::SeqCst) == 2;
    let each = |_: &_, _| {
        done.fetch_add(1, Ordering::SeqCst);
    };
    let all = Selection::default();
    let (tally, ended) = letters
        .redrive(&to, &all, false, &stop, |_| true, each)
        .await;
    ended.unwrap();
    assert!(tally.stopped);
    assert_eq!(tally.redriven, 2);
    assert_eq!(account.bodies("orders.fifo"), ["a1", "b1"]);
    assert_eq!(account.bodies("orders-dlq.fifo"), ["a2", "b2"]);
    assert_eq!(account.in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn looking_leaves_everything_where_it_was_whatever_happens() {
    let bodies: Vec<String> = (0..25).map(|body| format!("{body:02}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let account = Account::with("", &bodies).await;
    for enough in [1, 25, 99] {
        let mut seen = BTreeSet::new();
        let each = |letter: &DeadLetter| {
            seen.insert(letter.body().to_owned());
            seen.len() < enough
        };
        let letters = account.reliable(None);
        let looked = letters.look(&Selection::default(), &|| false, each).await;
        assert_eq!(looked.unwrap().stopped, enough < 99);
        assert_eq!(seen.len(), enough.min(25));
        assert_eq!(account.in_flight(), 0);
    }
    // The second receive fails. The messages of the first are released.
    let (_wire, letters) = account.cut(1, Turn::LoseRequest, Turn::Pass).await;
    let all = Selection::default();
    let looked = letters.look(&all, &|| false, |_| true).await;
    assert!(matches!(looked, Err(Error::Queue { .. })));
    assert_eq!(account.in_flight(), 0);
    assert_eq!(account.bodies("orders-dlq").len(), 25);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_does_not_answer_leaves_the_messages_visible() {
    let account = Account::new("").await;
    account.put(saying_its_key("a1"));
    let silent = Wire::always(Turn::LoseRequest).await;
    let store = store(&silent.endpoint(), &TableDescription::default());
    let letters = account.reliable(Some(Keys::new(store)));
    let (tally, ended) = account.redrive_all(&letters).await;
    assert!(matches!(ended, Err(Error::Store(_))), "{ended:?}");
    assert_eq!(tally.redriven, 0);
    assert_eq!(account.in_flight(), 0);
    assert_eq!(account.bodies("orders-dlq"), ["a1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_source_is_the_one_queue_that_has_this_for_its_dead_letters() {
    let account = Account::new("").await;
    let letters = account.reliable(None);
    assert_eq!(letters.source().await.unwrap(), account.sqs.url("orders"));
    let settings = account.sqs.queues().settings("orders").unwrap().clone();
    account.sqs.queues().create("returns", settings).unwrap();
    let Err(Error::Sources { found }) = letters.source().await else {
        panic!("there are two");
    };
    assert_eq!(found.len(), 2);
    let at_another_host = letters.url().replace("127.0.0.1", "localhost");
    assert_ne!(at_another_host, letters.url());
    let all = Selection::default();
    for itself in [letters.url(), &at_another_host] {
        let run = letters.redrive(itself, &all, true, &|| false, |_| true, |_, _| {});
        assert!(matches!(run.await.1, Err(Error::SameQueue)));
    }
}

/// A consumer that fails at once returns messages while the redrive still runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_again_during_a_redrive_stays() {
    type Back = fn(&str, &str) -> NewMessage;
    let without_room: Back = |id, body| NewMessage::new(format!("again-{id}"), body);
    let with_its_id: Back = |id, body| {
        let mut back = NewMessage::new(format!("again-{id}"), body);
        let name = "sqs-once-message-id".to_owned();
        back.attributes.insert(name, text(id));
        back
    };
    let moved_by_sqs: Back = |id, body| NewMessage::new(id, body);
    let in_group: Back = |id, body| NewMessage::new("again", body).in_group("a", id);
    let with_a_place: Back =
        |id, body| NewMessage::new("again", body).in_group("a", format!("sqs-once:1:0:{id}"));
    for (suffix, bodies, back) in [
        ("", &BODIES[..], with_its_id),
        ("", &BODIES, moved_by_sqs),
        ("", &BODIES, without_room),
        (".fifo", &BODIES[..1], in_group),
        (".fifo", &BODIES[..1], with_a_place),
    ] {
        let account = Account::with(suffix, bodies).await;
        let letters = account.reliable(None);
        let mut fates = Vec::new();
        let each = |_: &_, fate| {
            fates.push(fate);
            let (now, mut queues) = (SystemTime::now(), account.sqs.queues());
            for message in queues.receive(&account.source(), 10, now).unwrap() {
                let handle = &message.receipt_handle;
                queues.delete(&account.source(), handle, now).unwrap();
                let back = back(&message.message.id, &message.message.body);
                queues.send(&account.dlq(), back, now).unwrap();
            }
            assert!(fates.len() < 20, "it has no end");
        };
        let (tally, ended) = account.redrive(&letters, true, each).await;
        ended.unwrap();
        let count = bodies.len();
        assert_eq!((tally.redriven, tally.came_back), (count, count));
        assert!(fates[count..].iter().all(|fate| *fate == Fate::CameBack));
        let left = set(account.bodies(&account.dlq()));
        assert_eq!(left, bodies.iter().map(|&body| body.to_owned()).collect());
        assert_eq!(account.in_flight(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_cannot_be_looked_up_hides_nothing_of_the_others() {
    let account = Account::new("").await;
    for body in ["a1", "b1"] {
        account.put(saying_its_key(body));
    }
    // DynamoDB rejects such a key, and the whole request with it.
    let long = "x".repeat(3000);
    account.put(saying_its_key(&long));
    let (dynamodb, keys) = completed(&["payments#a1"]).await;
    let broken =
        json!({"id": {"S": "payments#b1"}, "status": {"S": "COMPLETED"}, "fence": {"S": "?"}});
    put(&dynamodb, broken);
    let (standings, _) = looked(&account.reliable(Some(keys))).await;
    use Standing::{Completed, UnknownKey, Unreadable};
    assert_eq!(standings, [Completed, Unreadable, UnknownKey]);
}

/// It had no effect: a run that drops what is completed must not drop it, and after a correction it can be redriven.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_key_was_completed_for_another_payload_is_not_taken_for_done() {
    let account = Account::new(".fifo").await;
    let mut other = saying_its_key("a1");
    let reason = text("payload mismatch: its key was completed for another payload");
    other
        .attributes
        .insert("sqs-once-reason".to_owned(), reason);
    account.put(other);
    account.put(saying_its_key("b1"));
    let (_dynamodb, keys) = completed(&["payments#a1", "payments#b1"]).await;
    let letters = account.reliable(Some(keys));
    let (standings, _) = looked(&letters).await;
    assert_eq!(standings, [Standing::OtherPayload, Standing::Completed]);
    let (tally, ended) = account.redrive_all(&letters).await;
    ended.unwrap();
    assert_eq!((tally.redriven, tally.refused), (1, 1));
    assert_eq!(account.bodies("orders.fifo"), ["a1"]);
}

/// A key whose first part is in the body.
fn key_from(others: Vec<PartFrom>) -> KeyFrom {
    let first = PartFrom::Body(JsonPointer::new("/id"));
    KeyFrom {
        parts: [vec![first], others].concat(),
        namespace: payments(),
    }
}

/// The consumer switched between hashed and readable ids.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_completed_under_either_form_of_its_id_is_done() {
    let key = BusinessKey::new("o-1").unwrap();
    let [hashed, readable] =
        [false, true].map(|readable| payments().readable_keys(readable).item_id(&key));
    for (done, failed) in [(&hashed, &readable), (&readable, &hashed)] {
        let account = Account::new("").await;
        account.put(NewMessage::new("m-1", r#"{"id": "o-1"}"#));
        let (dynamodb, keys) = completed_for(done, r#"{"id": "o-1"}"#).await;
        let released = json!({
            "id": {"S": failed.as_str()}, "status": {"S": "INPROGRESS"}, "in_progress_expiration": {"N": "0"},
        });
        put(&dynamodb, released);
        let key_from = key_from(vec![]);
        let letters = account.reliable(Some(keys)).key_from(Some(key_from));
        let expected = (vec![Standing::Completed], vec![Some(done.clone())]);
        assert_eq!(looked(&letters).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_can_have_a_part_in_the_body_and_one_in_an_attribute() {
    let key = BusinessKey::new(&("o-1", "acme")).unwrap();
    let id = payments().item_id(&key);
    let account = Account::new("").await;
    let mut of_tenant = NewMessage::new("m-1", r#"{"id": "o-1"}"#);
    let tenant = ("tenant".to_owned(), text("acme"));
    of_tenant.attributes.extend([tenant]);
    account.put(of_tenant);
    account.put(NewMessage::new("m-2", r#"{"id": "o-1"}"#));
    let (_dynamodb, keys) = completed_for(&id, r#"{"id": "o-1"}"#).await;
    let key_from = key_from(vec![PartFrom::Attribute("tenant".to_owned())]);
    let letters = account.reliable(Some(keys)).key_from(Some(key_from));
    let standings = vec![Standing::Completed, Standing::UnknownKey];
    let expected = (standings, vec![Some(id), None]);
    assert_eq!(looked(&letters).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_of_a_message_from_sns_is_in_its_notification() {
    let key = BusinessKey::new("o-1").unwrap();
    let id = payments().item_id(&key);
    let account = Account::new("").await;
    let notification = json!({"Type": "Notification", "Message": r#"{"id": "o-1"}"#});
    account.put(NewMessage::new("m-1", notification.to_string()));
    let (_dynamodb, keys) = completed_for(&id, r#"{"id": "o-1"}"#).await;
    let letters = account
        .reliable(Some(keys))
        .key_from(Some(key_from(vec![])));
    assert_eq!(looked(&letters).await.0, [Standing::Completed]);
}

/// Another route or consumer may have completed the key, which is only looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_without_its_keys_id_is_done_only_if_the_key_was_completed_for_its_payload() {
    let id = payments().item_id(&BusinessKey::new("o-1").unwrap());
    let own = r#"{"id": "o-1", "refund": 7, "more": 12345678901234567890}"#;
    let respaced = r#"{"refund":7,"more":12345678901234567890,"id":"o-1"}"#;
    let other_value = r#"{"id": "o-1", "refund": 8, "more": 12345678901234567890}"#;
    let whole = |payload: &str| Some(Fingerprint::from_body(payload).as_str().to_owned());
    let part = Fingerprint::new("o-1").unwrap();
    let event = format!(r#"{{"detail-type": "refund", "id": "o-1", "detail": {own}}}"#);
    let of_bus = format!(r#"{{"SystemMetadata": {{}}, "id": "o-1", "Data": {own}}}"#);
    let nested = format!(r#"{{"id": "o-1", "detail": {own}}}"#);
    use Standing::{Completed, OtherPayload};
    for (body, completed, expected) in [
        (own, whole(respaced), Completed),
        (&event, whole(own), Completed),
        (&of_bus, whole(own), Completed),
        (&nested, whole(own), OtherPayload),
        (own, whole(other_value), OtherPayload),
        (own, whole(r#"{"id": "o-1", "charge": 7}"#), OtherPayload),
        (own, Some(part.as_str().to_owned()), OtherPayload),
        (own, None, OtherPayload),
    ] {
        let account = Account::new("").await;
        account.put(NewMessage::new("m-1", body));
        let (dynamodb, store) = dynamodb(&TableDescription::default()).await;
        put(&dynamodb, completion(&id, completed.as_deref()));
        let key_from = key_from(vec![]);
        let letters = account.reliable(Some(Keys::new(store)));
        let letters = letters.key_from(Some(key_from));
        let (standings, _) = looked(&letters).await;
        assert_eq!(standings, [expected], "{body} {completed:?}");
        let (tally, ended) = account.redrive_all(&letters).await;
        ended.unwrap();
        let stays = usize::from(expected == Completed);
        assert_eq!((tally.refused, tally.redriven), (stays, 1 - stays));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_ends_where_it_is_stopped_and_puts_the_rest_back() {
    let account = Account::with("", &BODIES).await;
    let letters = account.reliable(None);
    let held = letters.hold(&Selection::default(), &|| false).await;
    let (held, _) = held.unwrap();
    let gone = AtomicUsize::new(0);
    let stop = || gone.load(Ordering::SeqCst) == 2;
    let each = |_: &_| {
        gone.fetch_add(1, Ordering::SeqCst);
    };
    let (dropped, ended) = letters.drop_held(&held, &stop, |_| true, each).await;
    ended.unwrap();
    assert_eq!(dropped, 2);
    assert_eq!(account.bodies("orders-dlq").len(), 2);
    assert_eq!(account.in_flight(), 0);
}

/// So much time passes.
fn pass(time: Duration) {
    tokio::time::pause();
    // The time has passed before it waits.
    let _ = tokio::time::advance(time).now_or_never();
    tokio::time::resume();
}

/// SQS confirms a deletion by an old receipt, but may keep the message.
#[tokio::test]
async fn no_message_is_dropped_by_a_receipt_that_is_older_than_its_hold() {
    let account = Account::with("", &BODIES).await;
    let letters = account.reliable(None);
    let held = letters.hold(&Selection::default(), &|| false).await;
    let (held, _) = held.unwrap();
    let mut gone = 0;
    let each = |_: &_| {
        gone += 1;
        if gone == 2 {
            pass(DeadLetters::HOLD - Duration::from_secs(60));
        }
    };
    let (dropped, ended) = letters.drop_held(&held, &|| false, |_| true, each).await;
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("Run the command again"), "{error}");
    assert_eq!(dropped, 2);
    assert_eq!(account.bodies("orders-dlq").len(), 2);
    assert_eq!(account.in_flight(), 0);
}

#[tokio::test]
async fn messages_are_not_received_for_so_long_that_no_time_is_left_to_drop_them() {
    let bodies: Vec<String> = (0..25).map(|body| format!("{body:02}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let account = Account::with("", &bodies).await;
    let letters = account.reliable(None);
    let slow = || {
        pass(DeadLetters::HOLD / 4);
        false
    };
    let (held, tally) = letters.hold(&Selection::default(), &slow).await.unwrap();
    assert!(tally.stopped);
    assert_eq!(held.len(), 10);
    let (dropped, ended) = letters.drop_held(&held, &|| false, |_| true, |_| {}).await;
    ended.unwrap();
    assert_eq!(dropped, 10);
    assert_eq!(account.bodies("orders-dlq").len(), 15);
}

/// It is no event, and a queue for them in order has their groups.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_report_of_an_event_bus_stays_with_what_is_behind_it_in_its_group() {
    let account = Account::new(".fifo").await;
    let report = json!({
        "busArn": "arn:aws:events:us-east-1:111122223333:event-busv2/shop/EXAMPLE",
        "subscriberArn": "arn:aws:events:us-east-1:111122223333:subscriber/large/EXAMPLE",
        "targetArn": "arn:aws:sqs:us-east-1:111122223333:orders.fifo",
        "errorCode": "THROTTLING",
        "failedMessages": [{"eventId": "e-1", "timestamp": "2026-09-16T18:40:12Z"}],
    });
    let message = NewMessage::new("id-report", report.to_string());
    account.put(message.in_group("a", "first-report"));
    for body in ["a1", "b1"] {
        account.put(letter(body));
    }
    let mut fates = Vec::new();
    let each = |letter: &DeadLetter, fate| fates.push((letter.id().to_owned(), fate));
    let (tally, ended) = account.redrive(&account.reliable(None), true, each).await;
    ended.unwrap();
    assert!(fates.contains(&("id-report".to_owned(), Fate::BusFailure)));
    assert!(fates.contains(&("id-a1".to_owned(), Fate::Behind)));
    let counts = (tally.bus_failures, tally.behind, tally.redriven);
    assert_eq!(counts, (1, 1, 1));
    assert_eq!(account.bodies("orders.fifo"), ["b1"]);
}
