//! Keys that the table stores in plain text.

use crate::support::{Bench, Notes, Order, noting, orders};
use sqs_once::key::{Ids, ItemId, KeyCodec, KeyPart, KeySecret, Namespace};
use sqs_once::{BusinessKey, IdempotencyToken};

fn readable_id(key: &(impl KeyPart + ?Sized)) -> String {
    let namespace = Namespace::new("n").unwrap().readable_keys(true);
    let id = namespace.item_id(&BusinessKey::new(key).unwrap());
    id.as_str().to_owned()
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
    let several = readable_id(&(true, -7, [0_u8, 255]));
    assert_eq!(several, "n#b:true,i:-7,x:00ff");
    let digest = "ab".repeat(32);
    // Not a hash.
    assert_eq!(readable_id(&*digest), format!("n#s:{digest}"));
}

#[test]
fn an_id_that_would_be_too_long_for_a_sort_key_has_the_hash() {
    let longest = readable_id(&*"k".repeat(1020));
    assert_eq!(longest.len(), ItemId::MAX_READABLE_LEN);
    for long in ["k".repeat(1021), "é".repeat(171)] {
        let hashed = Namespace::new("n").unwrap();
        let hashed = hashed.item_id(&BusinessKey::new(&*long).unwrap());
        assert_eq!(readable_id(&*long), hashed.as_str());
        assert_eq!(hashed.as_str().len(), "n#".len() + 64);
    }
}

fn shown(key: &str) -> ItemId {
    ItemId::from_stored(format!("test#s:{key}"))
}

#[tokio::test(start_paused = true)]
async fn keys_are_readable_by_request_only_and_recognised_as_ever() {
    let (bench, _) = noting();
    bench.run(["o-1"]).await;
    assert_eq!(bench.store.inner.get(&shown("o-1")), None);
    bench.outcomes();

    let bench = bench.with(|it| it.ids(Ids::readable()));
    for outcome in ["processed", "duplicate"] {
        bench.run(["o-1"]).await;
        assert_eq!(bench.outcomes(), outcome);
    }
    let item = bench.store.inner.get(&shown("o-1")).unwrap();
    assert_eq!(item.id, shown("o-1"));

    let bench = bench.with(|it| it.ids(Ids::hashed()));
    bench.run(["o-1"]).await;
    assert_eq!(bench.outcomes(), "duplicate");
}

#[tokio::test(start_paused = true)]
async fn an_event_keeps_its_token_when_its_key_becomes_readable_or_has_a_secret_or_another_codec() {
    let (tokens, notes) = Notes::pair();
    let noting = notes.of_both(|_: Order, token: IdempotencyToken| token.to_string());
    let plain = orders().call(noting);
    let secret = KeySecret::new([7; 32]).unwrap();
    let codec = KeyCodec::powertools_python("orders.app.process_order");
    let handlers = [
        plain.clone(),
        plain.clone().ids(Ids::readable()),
        plain.clone().ids(Ids::secret(secret).read_alone()),
        plain.ids(codec),
    ];
    let bench = Bench::new();
    let consumers = handlers.map(|handler| bench.consumer(handler));
    for id in ["o-1", "o-2"] {
        for consumer in &consumers {
            bench.deliver(consumer, [id]).await;
        }
    }
    let tokens = tokens.take();
    assert_eq!(tokens.len(), 8);
    let (first, second) = tokens.split_at(4);
    assert!(first.iter().all(|token| *token == first[0]));
    assert!(second.iter().all(|token| *token == second[0]));
    assert_ne!(first[0], second[0]);
}
