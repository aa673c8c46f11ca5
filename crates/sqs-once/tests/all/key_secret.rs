//! Keys and fingerprints hashed with a secret, and the rotation of secrets.

use crate::support::{assert_contains, assert_lacks, values};
use serde_json::{Value, json};
use sqs_once::key::{Fingerprint, Ids, KeyCodec, KeySecret, Namespace};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::Store;
use sqs_once::testing::{Bench, Event};
use sqs_once::{BusinessKey, Handler};

fn secret(byte: u8) -> KeySecret {
    KeySecret::new([byte; 32]).unwrap()
}

fn namespace(secret: Option<KeySecret>) -> Namespace {
    let namespace = Namespace::new("payments").unwrap();
    match secret {
        Some(secret) => namespace.key_secret(secret),
        None => namespace,
    }
}

fn comparing() -> Handler {
    let handler = values().call(async |_: Value| {}).namespace("payments");
    handler.payload_mismatch(PayloadMismatch::Retry)
}

fn order(id: &str, cents: u64) -> Event {
    Event::new([&json!({ "id": id, "cents": cents })])
}

#[test]
fn an_id_is_the_hmac_of_the_key() {
    let key = BusinessKey::new("o-1001").unwrap();
    let id = namespace(Some(secret(7))).item_id(&key);
    // Python: hmac.new(bytes([7] * 32), b"s" + struct.pack(">Q", 6) + b"o-1001", "sha256")
    let hmac = "120f4d50cc51d1fef3059a91e3fff9b22b0ac9e59533b004773101af701e843d";
    assert_eq!(id.as_str(), format!("payments#{hmac}"));
    let others = [namespace(None), namespace(Some(secret(8)))];
    assert!(others.iter().all(|other| other.item_id(&key) != id));
}

#[test]
fn a_secret_is_in_no_debug_output_and_in_no_error() {
    let secret = KeySecret::new("correct horse battery").unwrap();
    let namespace = namespace(Some(secret.clone()));
    let codec = KeyCodec::from(namespace.clone());
    let bytes = format!("{:?}", b"correct horse battery");
    let shown = format!("{secret:?} {namespace:?} {codec:?}");
    assert_contains!(shown, "KeySecret(..)");
    assert_contains!(format!("{codec:?}"), "payments");
    assert_lacks!(shown, "horse", &bytes);
    let error = KeySecret::new("battery staple").unwrap_err();
    let shown = format!("{error} {error:?}");
    assert_lacks!(shown, "staple");
    assert_contains!(shown, "14 bytes");
}

#[tokio::test(start_paused = true)]
async fn the_table_holds_neither_the_hash_nor_the_fingerprint_that_anyone_can_compute() {
    let bench = Bench::new(comparing().ids(Ids::secret(secret(7))));
    bench.run(order("o-1", 1)).await.assert_processed("m-1");
    let item = bench.item("o-1").await.unwrap();
    let key = BusinessKey::new("o-1").unwrap();
    assert_eq!(item.id, namespace(Some(secret(7))).item_id(&key));
    let fingerprint = item.fingerprint.unwrap();
    let body = json!({ "id": "o-1", "cents": 1 }).to_string();
    assert_ne!(fingerprint, Fingerprint::from_body(&body));
    let guessed = namespace(None).item_id(&key);
    let found = bench.store().read(&[guessed]).await.remove(0);
    assert_eq!(found.unwrap(), None);
    // The consumer compares the fingerprint of the existing item.
    bench.run(order("o-1", 1)).await.assert_duplicate("m-1");
    bench.run(order("o-1", 2)).await.assert_failed("m-1");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_given_a_secret_knows_what_it_did_without() {
    let before = Bench::new(comparing());
    let now = before.beside(comparing().ids(Ids::secret(secret(7))));
    before.run(order("o-1", 1)).await.assert_processed("m-1");
    now.run(order("o-1", 1)).await.assert_duplicate("m-1");
    before.run(order("o-1", 2)).await.assert_failed("m-1");
    before.run(order("o-2", 1)).await.assert_processed("m-1");
    now.run(order("o-2", 2)).await.assert_failed("m-1");

    // A key in progress under the other ID is in progress here.
    before.another_worker_claims("o-3").await;
    now.run(order("o-3", 1)).await.assert_in_progress("m-1");

    let fresh = before.beside(comparing().ids(Ids::secret(secret(7)).read_alone()));
    fresh.run(order("o-2", 1)).await.assert_processed("m-1");
}

#[test]
fn every_way_to_give_a_secret_makes_the_same_ids_or_refuses_it() {
    let key = BusinessKey::new("o-1").unwrap();
    let id = |secret: KeySecret| namespace(Some(secret)).item_id(&key);
    let plain = "the secret of these tests";
    for line_ends in ["\n", "\r\n", "\n\n", "\r"] {
        let text = format!("{plain}{line_ends}");
        let stored = KeySecret::from_stored(&text).unwrap();
        assert_eq!(id(stored), id(KeySecret::new(plain).unwrap()), "{text:?}");
        let refused = KeySecret::new(&text).unwrap_err().to_string();
        assert_contains!(refused, "ends in a line end", "`KeySecret::from_stored`");
    }
    for len in [0, 1, 15] {
        KeySecret::new(vec![7; len]).unwrap_err();
    }
    KeySecret::new([7; 16]).unwrap();
    // A random byte may look like a line end.
    let bytes = [&[0xff; 31][..], b"\n"].concat();
    let stored = KeySecret::from_stored(&bytes).unwrap();
    assert_eq!(id(stored), id(KeySecret::new(&bytes).unwrap()));
    assert_ne!(KeySecret::new(&bytes), KeySecret::new(&bytes[..31]));
}
