//! Keys that the table stores in plain text.

use std::sync::{Arc, Mutex};

use crate::support::{Bench, Order, event, order, outcomes};
use proptest::collection::vec;
use proptest::prelude::*;
use sqs_once::extract::Key;
use sqs_once::key::KeyError;
use sqs_once::key::{ItemId, KeyPart, KeyWriter, Namespace};
use sqs_once::{BusinessKey, Consumer, IdempotencyToken, consumer};

fn readable_id(key: &(impl KeyPart + ?Sized)) -> String {
    let namespace = Namespace::new("n").unwrap().readable_keys(true);
    let id = namespace.item_id(&BusinessKey::new(key).unwrap());
    id.as_str().to_owned()
}

/// A part of a key, by the kind in its ID.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Integer(i128),
    Boolean(bool),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
struct Parts<'a>(&'a [Part]);

impl KeyPart for Parts<'_> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => text.write(key),
            Part::Integer(integer) => integer.write(key),
            Part::Boolean(boolean) => boolean.write(key),
            Part::Bytes(bytes) => bytes.write(key),
        })
    }
}

/// Parses an ID back into parts. Because this is possible, no two keys have the same ID.
fn parts_of(id: &str) -> Vec<Part> {
    let parts = id.strip_prefix("n#").unwrap().split(',');
    let parts = parts.map(|part| match part.split_once(':').unwrap() {
        ("s", text) => Part::Text(String::from_utf8(unescaped(text)).unwrap()),
        ("i", digits) => Part::Integer(digits.parse().unwrap()),
        ("b", text) => Part::Boolean(text.parse().unwrap()),
        ("x", digits) => Part::Bytes(
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect(),
        ),
        (kind, _) => panic!("{kind} is no kind"),
    });
    parts.collect()
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap().as_bytes().to_vec();
    for piece in pieces {
        let (digits, plain) = piece.split_at(2);
        bytes.push(u8::from_str_radix(digits, 16).unwrap());
        bytes.extend(plain.as_bytes());
    }
    bytes
}

/// Arbitrary texts, and texts that look like parts of an ID.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[s:,%#2C0aé ]{1,8}", "\\PC{1,8}", "(?s).{1,8}"]
        .prop_filter("not blank", |text: &String| !text.trim().is_empty())
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => text().prop_map(Part::Text),
        1 => any::<i128>().prop_map(Part::Integer),
        1 => any::<bool>().prop_map(Part::Boolean),
        1 => vec(any::<u8>(), 1..8).prop_map(Part::Bytes),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_id_holds_its_key_whole_in_visible_ascii_and_is_nobodys_hash(
        parts in vec(part(), 1..6)
    ) {
        let id = readable_id(&Parts(&parts));
        prop_assert!(id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        prop_assert_eq!(parts_of(&id), parts);
        prop_assert!(!is_hashed(&id), "{id}");
    }
}

fn is_hashed(id: &str) -> bool {
    let key = id.strip_prefix("n#").unwrap();
    key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[test]
fn an_id_shows_its_keys_parts_and_their_kinds() {
    assert_eq!(readable_id("order-42"), "n#s:order-42");
    assert_eq!(readable_id(&42), "n#i:42");
    assert_eq!(readable_id("42"), "n#s:42");
    assert_eq!(readable_id(&("a", "bc")), "n#s:a,s:bc");
    assert_eq!(readable_id(&("ab", "c")), "n#s:ab,s:c");
    assert_eq!(readable_id("a,s:bc"), "n#s:a%2Cs:bc");
    assert_eq!(readable_id("100 %\n"), "n#s:100%20%25%0A");
    assert_eq!(readable_id("Müller"), "n#s:M%C3%BCller");
    assert_eq!(
        readable_id(&(true, -7, [0_u8, 255])),
        "n#b:true,i:-7,x:00ff"
    );
    let digest = "ab".repeat(32);
    assert_eq!(readable_id(&*digest), format!("n#s:{digest}"));
}

#[test]
fn an_id_that_would_be_too_long_for_a_sort_key_has_the_hash() {
    let longest = readable_id(&*"k".repeat(1020));
    assert_eq!(longest.len(), ItemId::MAX_READABLE_LEN);
    for long in ["k".repeat(1021), "é".repeat(171)] {
        let id = readable_id(&*long);
        assert!(is_hashed(&id), "{id}");
        let hashed = Namespace::new("n").unwrap();
        let hashed = hashed.item_id(&BusinessKey::new(&*long).unwrap());
        assert_eq!(id, hashed.as_str());
    }
}

fn by_id(bench: &Bench) -> Consumer {
    bench.consumer(
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(async |_: Order| {}),
    )
}

fn shown(key: &str) -> ItemId {
    ItemId::from_stored(format!("test#s:{key}"))
}

#[tokio::test(start_paused = true)]
async fn keys_are_readable_by_request_only_and_recognised_as_ever() {
    let bench = Bench::new();
    let hashed = by_id(&bench);
    bench.invoke(&hashed, event([order("o-1")])).await;
    assert_eq!(bench.store.inner.get(&shown("o-1")), None);
    bench.outcomes();

    let readable = hashed.clone().readable_keys(true);
    for outcome in ["processed", "duplicate"] {
        bench.invoke(&readable, event([order("o-1")])).await;
        assert_eq!(bench.outcomes(), outcomes([("m-0", outcome)]));
    }
    assert_eq!(
        bench.store.inner.get(&shown("o-1")).unwrap().id,
        shown("o-1")
    );

    bench
        .invoke(&readable.readable_keys(false), event([order("o-1")]))
        .await;
    assert_eq!(bench.outcomes(), outcomes([("m-0", "duplicate")]));
}

#[tokio::test(start_paused = true)]
async fn no_log_line_and_no_debug_form_shows_a_readable_key() {
    let bench = Bench::new();
    let seen = Arc::new(Mutex::new(String::new()));
    let note = Arc::clone(&seen);
    let consumer = bench.consumer(
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .readable_keys(true)
            .handler(move |_: Order, key: Key| {
                *note.lock().unwrap() = format!("{key:?}");
                std::future::ready(Err::<(), _>("no luck"))
            }),
    );
    bench.invoke(&consumer, event([order("secret")])).await;
    let log = bench.log.all();
    // printf %s 'test#s:secret' | sha256sum
    assert!(log.contains("test#066e59324a33"), "{log}");
    assert!(!log.contains("secret"), "{log}");
    let debug = seen.lock().unwrap();
    assert!(debug.contains("test#066e59324a33"), "{debug}");
    assert!(!debug.contains("secret"), "{debug}");
}

#[tokio::test(start_paused = true)]
async fn an_event_keeps_its_token_when_its_key_becomes_readable() {
    let bench = Bench::new();
    let tokens = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&tokens);
    let hashed = bench.consumer(
        consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |_: Order, token: IdempotencyToken| {
                note.lock().unwrap().push(token.to_string());
                std::future::ready(())
            }),
    );
    let readable = hashed.clone().readable_keys(true);
    for id in ["o-1", "o-2"] {
        bench.invoke(&hashed, event([order(id)])).await;
        bench.invoke(&readable, event([order(id)])).await;
    }
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), 4);
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(tokens[2], tokens[3]);
    assert_ne!(tokens[0], tokens[2]);
}
