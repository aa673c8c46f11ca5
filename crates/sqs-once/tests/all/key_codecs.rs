//! Keys under the IDs of Powertools for AWS Lambda. `.ci/powertools.py` regenerates the vectors with the real libraries
//! and runs both libraries on one table.

use std::collections::HashSet;
use std::time::Duration;

use crate::support::{Notes, Order, handling, one, several, values};
use serde_json::Value;
use sqs_once::key::{ItemId, KeyCodec, KeyError, KeyPart, KeyWriter};
use sqs_once::store::{Item, Status};
use sqs_once::testing::Bench;
use sqs_once::{BusinessKey, Handler, IdempotencyToken};

const VECTORS: &str = include_str!("powertools_vectors.json");
const PREFIX: &str = "orders.app.process_order";

struct Parts<'a>(&'a [Value]);

impl KeyPart for Parts<'_> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        self.0.iter().try_for_each(|part| match part {
            Value::String(text) => text.write(key),
            Value::Number(number) => number.as_i64().unwrap().write(key),
            Value::Bool(value) => value.write(key),
            other => panic!("{other} is no part"),
        })
    }
}

fn codecs() -> [(&'static str, KeyCodec); 4] {
    [
        ("python", KeyCodec::powertools_python(PREFIX)),
        ("typescript", KeyCodec::powertools_typescript(PREFIX)),
        ("java", KeyCodec::powertools_java(PREFIX)),
        ("dotnet", KeyCodec::powertools_dotnet(PREFIX)),
    ]
}

fn id<K: KeyPart + ?Sized>(codec: &KeyCodec, key: &K) -> Result<ItemId, KeyError> {
    codec.item_id(&BusinessKey::new(key).unwrap())
}

/// The reason that `codec` cannot write a key.
fn unwritable<K: KeyPart + ?Sized>(codec: KeyCodec, key: &K) -> &'static str {
    match id(&codec, key) {
        Err(KeyError::Unwritable { found, .. }) => found,
        other => panic!("{other:?}"),
    }
}

#[test]
fn keys_have_the_ids_that_the_real_libraries_give_them() {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors["prefix"], PREFIX);
    let keys = vectors["keys"].as_array().unwrap();
    assert!(keys.len() > 20);
    // The longest prefix fills an ID.
    let longest = KeyCodec::powertools_java(&"p".repeat(991));
    assert_eq!(id(&longest, "k").unwrap().as_str().len(), 1024);
    for key in keys {
        let parts = Parts(key["parts"].as_array().unwrap());
        for (library, codec) in codecs() {
            let found = id(&codec, &parts).unwrap();
            assert_eq!(found.as_str(), key[library], "{library}: {}", key["parts"]);
        }
    }
}

#[test]
fn what_a_library_has_no_sure_id_for_is_refused_and_never_guessed() {
    for (_, codec) in codecs() {
        assert_eq!(unwritable(codec, &[0_u8, 255]), "bytes");
    }
    let typescript = || KeyCodec::powertools_typescript(PREFIX);
    // `JSON.parse` reads these two as the same number.
    for large in [1_i128 << 53, (1 << 53) + 1, -(1 << 53)] {
        let found = unwritable(typescript(), &large);
        assert_eq!(found, "an integer beyond 2^53 - 1");
    }
    unwritable(typescript(), &("tenant", u128::MAX));
    assert!(id(&KeyCodec::powertools_python(PREFIX), &u128::MAX).is_ok());
    let dotnet = || KeyCodec::powertools_dotnet(PREFIX);
    for read_again in ["true", "null", " 42", "\"x\"", "{\"a\":1}", "[1]"] {
        let found = unwritable(dotnet(), read_again);
        assert_eq!(found, "text that is JSON itself", "{read_again}");
    }
    unwritable(dotnet(), &("tenant", "42"));
    let [text, number] = [id(&dotnet(), "42"), id(&dotnet(), &42)];
    assert_eq!(text.unwrap(), number.unwrap(), "as there");
}

#[test]
fn what_is_logged_of_an_id_has_nothing_of_its_md5() {
    for (library, codec) in codecs() {
        let id = id(&codec, "o-1001").unwrap();
        let (_, hash) = id.as_str().split_once('#').unwrap();
        let short = id.short();
        let (prefix, digits) = short.split_once('#').unwrap();
        assert_eq!((prefix, digits.len()), (PREFIX, 12), "{library}");
        assert!(!hash.starts_with(digits), "{library}");
        assert!(!format!("{id:?}").contains(hash), "{library}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_of_a_handler_has_a_token_of_its_own_that_stays_the_same_in_every_attempt() {
    let tokens = Tokens::default();
    let seen = tokens.clone();
    let bench = handling(move |_: Order, token: IdempotencyToken| {
        for call in ["reserve", "transfer"] {
            seen.add(token.for_call(call));
        }
        seen.add(token);
        std::future::ready(Err::<(), _>("again"))
    });
    bench.run(["a"]).await;
    bench.run(["a"]).await;
    bench.run(["b"]).await;
    let seen = tokens.take();
    assert_eq!(seen[..3], seen[3..6]);
    let distinct: HashSet<_> = seen.iter().collect();
    assert_eq!(distinct.len(), 6);
    assert!(seen.iter().all(|token| token.as_str().len() == 32));
}

type Tokens = Notes<IdempotencyToken>;

fn handler(tokens: &Tokens) -> Handler {
    let noting = tokens.clone().of_both(|_: Value, token| token);
    values().call(noting).namespace("payments")
}

fn python() -> KeyCodec {
    KeyCodec::powertools_python(PREFIX)
}

/// The item that Powertools for Python writes for a key.
fn of_python(key: &str, status: Status, bench: &Bench) -> Item {
    let later = bench.clock().now() + Duration::from_secs(3600);
    let lease_until = (status == Status::InProgress).then_some(later);
    let mut item = Item::new(id(&python(), key).unwrap(), status);
    item.lease_until = lease_until;
    item.expiration = Some(later);
    item.fingerprint = Some(sqs_once::key::Fingerprint::from_stored("an MD5"));
    item.data = Some("{\"receipt\": 7}".into());
    item
}

#[tokio::test(start_paused = true)]
async fn a_consumer_keeps_its_keys_where_the_other_library_does() {
    let tokens = Tokens::default();
    let bench = Bench::new(handler(&tokens).ids(python()));
    bench.run(one("o-1")).await.assert_processed("m-1");
    let id = id(&python(), "o-1").unwrap();
    let item = bench.store().memory().get(&id).unwrap();
    assert_eq!(item.status, Status::Completed);
    assert_eq!(item.fingerprint, None, "theirs is another");
    bench.run(one("o-1")).await.assert_duplicate("m-1");

    let store = bench.store().memory();
    store.put(of_python("o-2", Status::Completed, &bench));
    bench.run(one("o-2")).await.assert_duplicate("m-1");
    store.put(of_python("o-3", Status::InProgress, &bench));
    bench.run(one("o-3")).await.assert_in_progress("m-1");
    assert_eq!(tokens.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_without_an_id_makes_its_record_terminal_and_asks_nothing_of_the_store() {
    let tokens = Tokens::default();
    let codec = KeyCodec::powertools_dotnet(PREFIX);
    let bench = Bench::new(handler(&tokens).ids(codec));
    let answer = bench.run(several(["true", "o-1"])).await;
    answer.assert_terminal("m-1").assert_processed("m-2");
    answer.assert_reason("m-1", "text that is JSON itself");
    assert_eq!(bench.store().requests(), 2, "the other's claim and record");
}
