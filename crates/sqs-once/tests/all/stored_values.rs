//! Values stored in tables: ids and fingerprints, by which the consumer recognises completed events, and the values that
//! completions keep for duplicates.

use std::collections::HashMap;

use crate::support::{Bench, Mode, Order, codes, handling, json_body, orders};
use serde_json::json;
use sqs_once::key::{Fingerprint, KeyPart, Namespace};
use sqs_once::store::{Fence, Owner};
use sqs_once::{BusinessKey, Completion, HandlerError};

fn item_id(key: &impl KeyPart) -> String {
    let namespace = Namespace::new("payments").unwrap();
    let id = namespace.item_id(&BusinessKey::new(key).unwrap());
    id.as_str().to_owned()
}

#[test]
fn item_ids_stay_what_they_are() {
    let text = "payments#34e616d3cf9df13ab4ff0f189a4ab40a37cfb6b3808e0efaf788df7073ed514f";
    assert_eq!(item_id(&"o-17"), text);
    let pair = "payments#91239b5481673e0d811580c15d4f8ebc00d11e9ee3b09d8796d7e074894c5452";
    assert_eq!(item_id(&("tenant-7", 42)), pair);
    let several = "payments#3699c8a5ab3a2b64d57e059d2a7a94a9e99681280b0881b43e143b71195a99ac";
    assert_eq!(item_id(&(-5, true, [0_u8, 1, 255])), several);
}

#[test]
fn fingerprints_stay_what_they_are() {
    let many_fields = (0..30).map(|at| format!(r#""f{at}": {at}, "#));
    let many_fields = format!("{{{}\"f7\": \"again\"}}", many_fields.collect::<String>());
    for stored in [
        r#"490f8db5deb6fdb3e415a8bc71ca589bc69511491ceab83c846b17fceff37b75 {"id": 1, "total": 2.50, "currency": "EUR"}"#,
        r#"c99901a815024e8b9dd2ef8064e5dc4e8f17907973e8936a55077f3d555d44b3 {"b": [1, {"z": null, "a": "x"}, "y", []], "a": {}}"#,
        // The last of several fields with one name counts, regardless of escapes in the name.
        r#"02ecd8adf1163a182a32c8b5f31fb668f80ef39d615f9fc2f262e25435b798da {"a": 1, "b": {"x": 1}, "\u0061": 2, "b": 3, "a": [true]}"#,
        &format!("f977e4b23a98e739d0670ea7f6e6380c8d20b98af2275796d1d390d5442dfb1e {many_fields}"),
        r#"995d28d30f035ce7520e90366c800bcd17f4faa659ee40df0758066a92e3bf36 {"\u00e9": "\n\u20ac", "z": "é", "\"": ""}"#,
        r#"23295011f5d4d3ef927388bc184a4f8f1b9ddad8f51ca744f248694944b0b861  "text" "#,
        "f0868e2d512e90a2294a2b1730ea72b6a3c34defec82f77d2884d143c7845014  18446744073709551617\n",
        // Half a surrogate pair: as a value it is kept as written; in a name, the whole object is.
        r#"438e886a913224281f76c4563d0b6698bdc8a463eecfc824d1cab53c40a89138 {"a": "\ud800", "b": 1}"#,
        r#"a1eb424bb4d2871d9da352cf7992f9f5f64cce0660a876dd5c4b0b2226309b91 {"\ud800": 1, "b": 2}"#,
        // From the sixteenth level on, white space counts.
        "d4ae537e71dac7d465ea2e072a8e3c636cdeddf6cd3f8ef4adb5063690b0842c [[[[[[[[[[[[[[[ 1 ]]]]]]]]]]]]]]]",
        "4016a37958e3b0018bf767811e789664f9df1275d5e3d7a0545ebc301bd6f628 [[[[[[[[[[[[[[[[[[ 1 ]]]]]]]]]]]]]]]]]]",
        // Not JSON.
        "c9ecf5e54c7b3f2640ecca21f96d4c3625a2b7935104f41c5ede29935a9e52c9 plain text",
        r#"795efb8f8bdc87cd47c4172660bae252ef12fee17b0ef931eb542feb0b83a19a {"a": 1"#,
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 ",
    ] {
        let (fingerprint, body) = stored.split_once(' ').unwrap();
        let stored = Fingerprint::from_body(body);
        let (_, digits) = stored.as_str().split_once(':').unwrap();
        assert_eq!(digits, fingerprint, "{body}");
    }
}

#[test]
fn schemes_of_fingerprints_stay_what_they_are() {
    let part = Fingerprint::new(&1).unwrap();
    let fields = r#"{"total": 7, "currency": "EUR", "id": {"a": 1}}"#;
    let same_fields = r#"{"id": 1, "total": 2.50, "\u0063urrency": "EUR"}"#;
    let [fields, same_fields] = [fields, same_fields].map(Fingerprint::from_body);
    for (fingerprint, scheme) in [
        (Fingerprint::from_body("plain text"), "body1-811c9dc5"),
        (Fingerprint::from_body("[1]"), "body1-811c9dc5"),
        (fields, "body1-c159857c"),
        (same_fields, "body1-c159857c"),
        (part, "fields1"),
    ] {
        let stored = fingerprint.as_str();
        assert_eq!(stored.split_once(':').unwrap().0, scheme);
    }
}

#[test]
fn a_fence_is_shown_as_its_number() {
    assert_eq!(Fence::from_stored(7).to_string(), "7");
}

#[test]
fn an_owner_has_32_hexadecimal_digits_and_nothing_else() {
    let owner = Owner::from_bits(0xab);
    assert_eq!(Owner::from_stored(&owner.to_string()), Some(owner));
    assert_eq!(format!("{owner:?}"), format!("Owner({owner})"));
    let digits = "0".repeat(31);
    for refused in [
        String::new(),
        digits.clone(),
        format!("{digits}00"),
        format!("{digits}g"),
        format!("+{digits}"),
        format!("-{digits}"),
        format!("{digits} "),
    ] {
        assert!(Owner::from_stored(&refused).is_none(), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_keeps_its_value_as_json_also_where_nothing_was_claimed_before() {
    for mode in Mode::BOTH {
        let handler = mode.call(orders(), async |order: Order| -> Result<_, HandlerError> {
            Ok(Completion(json!({ "number": format!("r-{}", order.id) })))
        });
        let bench = Bench::new().on(handler);
        assert_eq!(bench.run(["o-1"]).await, [""; 0]);
        let data = bench.store.item("o-1").unwrap().data.unwrap();
        assert_eq!(*data, *json!({ "number": "r-o-1" }).to_string());
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_is_left_out_of_the_completion() {
    let bench = handling(async |order: Order| {
        // With two quotes, the first value has 262,144 bytes, and the second has one more.
        Completion("x".repeat(usize::try_from(order.total).unwrap()))
    });
    let sized = |id: &str, total: u32| json_body(&json!({ "id": id, "total": total }));
    let batch = [sized("fits", 262_142), sized("large", 262_143)];
    assert_eq!(bench.run(batch).await, [""; 0]);
    let kept = bench.store.item("fits").unwrap().data.unwrap();
    assert_eq!(kept.len(), 262_144);
    assert_eq!(bench.store.item("large").unwrap().data, None);
    let lines = bench.lines();
    assert_eq!(codes(&lines), "processed, processed: value-not-stored");
    let large = &lines[1];
    assert_eq!(large["level"], "WARN");
    let reason = "its result was not stored: it has 262145 bytes, at most 262144 are allowed";
    assert_eq!(large["reason"], reason);

    assert_eq!(bench.run([sized("large", 262_143)]).await, [""; 0]);
    assert_eq!(bench.outcomes(), "duplicate");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_no_json_is_left_out_of_the_completion_and_not_shown() {
    let bench = handling(async |_: Order| Completion(HashMap::from([((1, 2), 3)])));
    assert_eq!(bench.run(["o-1"]).await, [""; 0]);
    let reason = "its result was not stored: it can't be written as JSON";
    assert_eq!(bench.line()["reason"], reason);
}
