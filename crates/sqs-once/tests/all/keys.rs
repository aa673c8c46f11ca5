//! Sources of business keys, and the values that count as one key. The fuzzing of `extraction` checks that keys by JMESPath
//! agree with keys by JSON pointer.

use std::borrow::Cow;

use crate::support::envelope_bench::sns;
use crate::support::{assert_lacks, handled, with};
use serde::de::IgnoredAny;
use serde_json::json;
use sqs_once::body::Sns;
use sqs_once::key::{ItemId, KeyError, KeyPart, KeyWriter, MessageKey};
use sqs_once::telemetry::Outcome::{Duplicate, Processed, Terminal};
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{BusinessKey, Handler};

#[tokio::test(start_paused = true)]
async fn a_number_is_a_key_by_its_text_and_never_through_a_float() {
    let ids = [
        ("18446744073709551616", Processed),
        ("18446744073709551617", Processed),
        ("18446744073709551616 ", Duplicate),
        ("340282366920938463463374607431768211456", Processed),
        ("340282366920938463463374607431768211457", Processed),
        ("0", Processed),
        ("-0", Terminal),
    ];
    let records = ids.map(|(id, _)| Record::text(format!("{{\"id\": {id} }}")));
    let answer = handled(MessageKey::json_pointer("/id"), records).await;
    answer.assert_outcomes(ids.map(|(_, outcome)| outcome));
}

#[tokio::test(start_paused = true)]
async fn a_pointer_leads_through_objects_and_arrays_and_escaped_names() {
    let text = r#"{"a": [{"x/y": {"m~n": "k"}}], "": {" ": "\u006b"}, "é": "k"}"#;
    for (pointer, bodies) in [
        ("/a/0/x~1y/m~0n", [text, text]),
        ("// ", [text, text]),
        ("/é", [text, text]),
        ("", ["\"k\"", " \"k\" "]),
        ("/é", [r#"{"\u00e9": "k"}"#, r#"{"é": "k"}"#]),
    ] {
        let answer = handled(MessageKey::json_pointer(pointer), bodies.map(Record::text)).await;
        assert_eq!(answer.outcomes(), [Processed, Duplicate], "{pointer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_absent_blank_or_of_the_wrong_kind_is_no_key_and_never_shown() {
    let failed = "the key extractor failed";
    let fraction = "a fraction or an exponent";
    // A pointer begins with a slash, and an expression does not.
    for (place, body, why) in [
        ("/id/x", r#"{"id": {}}"#, "missing"),
        ("/id/x", r#"{"id": "text"}"#, "missing"),
        ("/id/x", "7", "missing"),
        ("/id/01", r#"{"id": ["a", "b"]}"#, "missing"),
        ("/id/-", r#"{"id": ["a"]}"#, "missing"),
        ("/id/+0", r#"{"id": ["a"]}"#, "missing"),
        ("/id/1", r#"{"id": ["a"]}"#, "missing"),
        ("/id/99999999999999999999", r#"{"id": ["a"]}"#, "missing"),
        ("/id", r#"{"id": null}"#, "missing"),
        ("/id", r#"{"id": ""}"#, "empty"),
        ("/id", r#"{"id": " \n"}"#, "empty"),
        ("/id", r#"{"id": {"canary": 1}}"#, "an object"),
        ("/id", r#"{"id": ["canary"]}"#, "an array"),
        ("/id", r#"{"id": 0.5}"#, fraction),
        ("/id", r#"{"id": 1e3}"#, fraction),
        ("/id", r#"{"id": 1E3}"#, fraction),
        ("/id", r#"{"id": "canary \ud800"}"#, "not valid JSON"),
        ("id", r#"{}"#, "missing"),
        ("id", r#"{"id": null}"#, "missing"),
        ("id", "[]", "missing"),
        ("id", r#"{"id": ""}"#, "empty"),
        ("id", r#"{"id": " \n"}"#, "empty"),
        ("id", r#"{"id": 18446744073709551616}"#, "more than 64 bits"),
        ("id", r#"{"id": 1.5}"#, "more than 64 bits"),
        ("id", r#"{"id": {"canary": 1}}"#, "is an object"),
        ("id", r#"{"id": ["canary"]}"#, "is an array"),
        ("to_number(id)", r#"{"id": "canary"}"#, "missing"),
        ("length(id)", r#"{"id": true, "x": "canary"}"#, failed),
    ] {
        let key = match place.starts_with('/') {
            true => MessageKey::json_pointer(place),
            false => MessageKey::jmespath(place),
        };
        let answer = handled(key, [Record::text(body)]).await;
        assert_eq!(answer.outcomes(), [Terminal], "{place} in {body}");
        answer.assert_reason("m-1", why);
        assert_lacks!(answer.reason("m-1").unwrap(), "canary");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hostile_body_neither_panics_nor_stalls_a_pointer() {
    let [open, close] = ["[", "]"].map(|bracket| bracket.repeat(100_000));
    let deep = format!(r#"{{"x": {open}{close}, "id": 1}}"#);
    let long = format!(r#"{{"id": {}}}"#, "9".repeat(5_000));
    let twice = r#"{"id": 1, "id": 2}"#;
    let records = [&*deep, &*long, twice, r#"{"id": 2}"#].map(Record::text);
    let answer = handled(MessageKey::json_pointer("/id"), records).await;
    answer.assert_outcomes([Processed, Terminal, Processed, Duplicate]);
    answer.assert_reason("m-2", "2048");
}

#[tokio::test(start_paused = true)]
async fn an_attribute_or_the_message_id_is_a_key_and_terminal_where_it_is_missing() {
    let records = || {
        let named = Record::text("{}").attribute("tenant", "t");
        let named = named.system_attribute("MessageGroupId", "g");
        let named = named.system_attribute("MessageDeduplicationId", "d");
        [named.clone(), named, Record::text("{}")]
    };
    for key in [
        MessageKey::system_attribute("MessageDeduplicationId"),
        MessageKey::attribute("tenant"),
        MessageKey::group_id(),
    ] {
        let answer = handled(key, records()).await;
        answer.assert_outcomes([Processed, Duplicate, Terminal]);
    }
    // A message that is sent again has another ID.
    let records = ["first", "first", "redriven"].map(|id| Record::text("{}").message_id(id));
    let answer = handled(MessageKey::message_id(), records).await;
    answer.assert_outcomes([Processed, Duplicate, Processed]);
}

struct Nothing;

impl KeyPart for Nothing {
    fn write(&self, _: &mut KeyWriter) -> Result<(), KeyError> {
        Ok(())
    }
}

#[test]
fn equal_text_and_equal_bytes_are_one_key_whatever_their_type() {
    let key = |part: &dyn KeyPart| BusinessKey::new(part).unwrap();
    assert_eq!(key(&'é'), key(&"é"));
    assert_eq!(key(&Cow::Borrowed("o-1")), key(&"o-1".to_owned()));
    let bytes: &[u8] = &[7, 8];
    assert_eq!(key(&bytes), key(&vec![7_u8, 8]));
    assert_eq!(key(&bytes), key(&[7_u8, 8]));
    assert_ne!(key(&true), key(&false));
    let empty: &[u8] = &[];
    for empty in [BusinessKey::new(&empty), BusinessKey::new(&Nothing)] {
        assert_eq!(empty, Err(KeyError::Empty));
    }
}

#[test]
fn the_longest_key_is_a_key_and_one_byte_more_is_refused_with_its_length() {
    let key = |len: usize| BusinessKey::new(&"x".repeat(len));
    let Err(KeyError::TooLong { len }) = key(BusinessKey::MAX_LEN) else {
        panic!("the encoding needs some bytes too");
    };
    let longest = BusinessKey::MAX_LEN - (len - BusinessKey::MAX_LEN);
    assert!(key(longest).is_ok());
    let len = BusinessKey::MAX_LEN + 1;
    assert_eq!(key(longest + 1), Err(KeyError::TooLong { len }));
}

#[tokio::test(start_paused = true)]
async fn a_boolean_at_a_pointer_is_the_key_of_that_boolean() {
    for value in [true, false] {
        let keyed = Handler::json::<IgnoredAny>().key(MessageKey::json_pointer("/id"));
        let bench = Bench::new(keyed.call(async |_: IgnoredAny| {}));
        let record = Record::text(format!("{{\"id\": {value}}}"));
        bench.run(Event::new([record])).await;
        assert!(bench.item(&value).await.is_some(), "{value}");
    }
}

#[test]
fn an_error_shows_what_happened_but_neither_a_key_nor_an_extractors_text() {
    let name = "tenant".to_owned();
    let missing = "MissingAttribute { name: \"tenant\" }";
    let (found, codec) = ("bytes", "Powertools for Java");
    let wrong = "WrongType { found: \"bytes\" }";
    let unwritable = "Unwritable { found: \"bytes\", codec: \"Powertools for Java\" }";
    for (error, shown) in [
        (KeyError::Missing, "Missing"),
        (KeyError::MissingAttribute { name }, missing),
        (KeyError::Empty, "Empty"),
        (KeyError::Malformed, "Malformed"),
        (KeyError::TooLong { len: 9 }, "TooLong { len: 9 }"),
        (KeyError::WrongType { found }, wrong),
        (KeyError::Unwritable { found, codec }, unwritable),
        (KeyError::extractor("4111"), "Extractor(..)"),
    ] {
        assert_eq!(format!("{error:?}"), shown);
    }
    let key = BusinessKey::new("card 4111").unwrap();
    let shown = format!("{key:?}");
    assert!(shown.starts_with("BusinessKey(") && shown.ends_with(" bytes)"));
    assert!(!shown.contains("4111"), "{shown}");
}

#[test]
fn an_items_id_has_a_short_form_of_its_hash() {
    let hash = "0123456789abcdef".repeat(4);
    let id = ItemId::from_stored(format!("payments#{hash}"));
    assert_eq!(id.to_string(), format!("payments#{hash}"));
    assert_eq!(id.short(), "payments#0123456789ab");
    // printf %s 'test#s:secret' | sha256sum
    let readable = ItemId::from_stored("test#s:secret");
    assert_eq!(readable.short(), "test#066e59324a33");
    assert!(!format!("{readable:?}").contains("secret"));
    // An id that shows its key could have any text there.
    for readable in ["0123456789abcdef".to_owned(), "g".repeat(64)] {
        let id = ItemId::from_stored(format!("payments#{readable}"));
        assert!(!id.short().contains(&readable[..12]), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_key_comes_of_a_number_that_went_through_a_float() {
    let bodies = [r#"{"id": 9007199254740992}"#, r#"{"id": 9007199254740993}"#];
    let beyond = [
        r#"{"id": 18446744073709551616}"#,
        r#"{"id": 18446744073709551617}"#,
    ];
    let join = "join('-', [to_string([id]), 'x'])";
    for (expression, bodies, outcome) in [
        ("abs(id)", bodies, Terminal),
        ("sum([id])", bodies, Terminal),
        ("to_string(abs(id))", bodies, Terminal),
        ("ceil(id)", bodies, Terminal),
        ("to_string(id)", bodies, Processed),
        ("to_string(@)", bodies, Processed),
        (join, bodies, Processed),
        ("to_string(id)", beyond, Terminal),
        ("to_string(@)", beyond, Terminal),
        (join, beyond, Terminal),
    ] {
        let answer = handled(MessageKey::jmespath(expression), bodies.map(Record::text)).await;
        let outcomes = answer.outcomes();
        assert_eq!(outcomes, [outcome; 2], "{expression} of {bodies:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn expressions_choose_filter_and_compose() {
    let text = r#"{"tenant": "t", "id": 7, "lines": [{"sku": "a"}, {"sku": "b", "main": true}],
        "largest": 18446744073709551615, "least": -9223372036854775808}"#;
    for expression in [
        "lines[?main].sku | [0]",
        "number || id",
        "join('/', [tenant, to_string(id)])",
        "length(lines)",
        // `to_string` adds no quotes to a text, and takes an integer of 64 bits with or without a sign.
        "lines[?to_string(sku) == 'b'].sku | [0]",
        "to_string(largest)",
        "to_string(least)",
    ] {
        let twice = [text, text].map(Record::text);
        let answer = handled(MessageKey::jmespath(expression), twice).await;
        assert_eq!(answer.outcomes(), [Processed, Duplicate], "{expression}");
    }
    let composed = (MessageKey::jmespath("tenant"), MessageKey::jmespath("id"));
    let answer = handled(composed, [text, text].map(Record::text)).await;
    answer.assert_outcomes([Processed, Duplicate]);
}

#[tokio::test(start_paused = true)]
async fn an_expression_reads_what_is_inside_of_an_envelope() {
    let keyed = Handler::json().key(MessageKey::jmespath("id"));
    let bench = Bench::new(keyed.call(async |_: IgnoredAny| {}).envelope(Sns));
    let raw = r#"{"id":1}"#;
    let wrapped = Record::json(&with(sns("n-1", raw), json!({ "id": 2 })));
    let answer = bench.run(Event::new([Record::text(raw), wrapped])).await;
    answer.assert_outcomes([Processed, Duplicate]);
}
