//! Extracts keys from an attribute and a body.

use serde_json::Value;
use sqs_once::BusinessKey;
use sqs_once::extract::Message;
use sqs_once::key::{Fingerprint, KeyError, KeyExtractor, MessageKey};
use sqs_once::testing::Record;

type Found = Result<BusinessKey, KeyError>;

/// Places in a body, each as a JSON pointer and as a JMESPath expression.
const PLACES: [(&str, &str); 4] = [("/a", "a"), ("/a/b", "a.b"), ("/a/0", "a[0]"), ("", "@")];

thread_local! {
    static EXTRACTORS: [(MessageKey, MessageKey); 4] =
        PLACES.map(|(pointer, path)| (MessageKey::json_pointer(pointer), MessageKey::jmespath(path)));
}

/// Checks the promises of the extractors. The first line is an attribute's value, the rest a body.
///
/// - A pointer finds the text, integer or boolean at its place, and makes the same key as code would. Otherwise it
///   reports that the value is missing, blank, too long or of the wrong type.
/// - A JMESPath expression for the same place finds the same key, or none if the number is too large for it.
/// - An attribute's key is its exact text, and never equals the key of a value of another type.
/// - White space around a body does not change its fingerprint. Text that is not JSON has a fingerprint of its own.
///
/// # Panics
/// If the library breaks a promise.
pub fn extraction(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Some((attribute, body)) = text.split_once('\n') else {
        return;
    };
    let record = Record::text(body)
        .attribute("a", attribute)
        .system_attribute("a", attribute);
    let parts = record.parts("fuzz", ());
    let message = parts.message();
    let attribute_key = check_attribute(attribute, message);
    let json: Option<Value> = serde_json::from_str(body).ok();
    EXTRACTORS.with(|extractors| {
        for ((pointer, path), (place, _)) in extractors.iter().zip(PLACES) {
            let by_pointer = find(pointer, message);
            let by_path = find(path, message);
            check_place(json.as_ref(), place, &by_pointer, &by_path);
            let both = find(&(MessageKey::attribute("a"), pointer.clone()), message);
            match (&attribute_key, &by_pointer) {
                (Ok(one), Ok(other)) => assert_eq!(both, BusinessKey::new(&(one, other))),
                (Ok(_), Err(error)) | (Err(error), _) => assert_eq!(both.as_ref(), Err(error)),
            }
        }
    });
    if json.is_some() {
        let padded = format!(" \n{body}\t");
        assert_eq!(
            Fingerprint::from_body(body),
            Fingerprint::from_body(&padded)
        );
    }
}

fn find(extractor: &impl KeyExtractor<()>, message: &Message) -> Found {
    extractor.key(&(), message)
}

fn check_attribute(attribute: &str, message: &Message) -> Found {
    let found = find(&MessageKey::attribute("a"), message);
    assert_eq!(found, BusinessKey::new(attribute));
    assert_eq!(found, find(&MessageKey::system_attribute("a"), message));
    let name = "b".to_owned();
    assert_eq!(
        find(&MessageKey::attribute("b"), message),
        Err(KeyError::MissingAttribute { name })
    );
    if let (Ok(text), Ok(number)) = (&found, attribute.parse::<i128>()) {
        assert_ne!(Ok(text), BusinessKey::new(&number).as_ref());
    }
    found
}

/// Compares the extracted keys with the key that code would make from the same place.
fn check_place(json: Option<&Value>, place: &str, by_pointer: &Found, by_path: &Found) {
    let Some(json) = json else {
        // A pointer can read a text in otherwise broken JSON, but JMESPath cannot.
        assert!(
            matches!(by_path, Err(KeyError::WrongType { .. })),
            "{by_path:?}"
        );
        return;
    };
    let found = json.pointer(place);
    let is_exact = |value: &Value| value.is_u64() || value.is_i64();
    // serde_json reads this number as a float, but its text may be a large integer.
    if found.is_some_and(|value| value.is_number() && !is_exact(value)) {
        assert!(
            matches!(
                by_pointer,
                Ok(_) | Err(KeyError::WrongType { .. } | KeyError::TooLong { .. })
            ),
            "{by_pointer:?}"
        );
        assert!(
            matches!(by_path, Err(KeyError::WrongType { .. } | KeyError::Missing)),
            "{by_path:?}"
        );
        return;
    }
    let expected = match found {
        None | Some(Value::Null) => Err(KeyError::Missing),
        Some(Value::Bool(value)) => BusinessKey::new(value),
        Some(Value::String(text)) => BusinessKey::new(text),
        Some(Value::Number(number)) => match number.as_i64() {
            Some(number) => BusinessKey::new(&number),
            None => BusinessKey::new(&number.as_u64()),
        },
        Some(Value::Array(_)) => Err(KeyError::WrongType { found: "an array" }),
        Some(Value::Object(_)) => Err(KeyError::WrongType { found: "an object" }),
    };
    assert_eq!(by_pointer, &expected, "the pointer {place}");
    // JMESPath's index `a[0]` does not select a member of an object.
    let is_member = place == "/a/0" && json["a"].is_object();
    if !is_member {
        assert_eq!(by_path, &expected, "the path of {place}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finds;

    #[test]
    fn another_key_and_an_integer_that_went_through_a_float_are_found() {
        let json = serde_json::json!({ "a": "o-1", "b": "o-2" });
        let other = BusinessKey::new("o-2");
        finds("the pointer /a", || {
            check_place(Some(&json), "/a", &other, &other);
        });
        let json = serde_json::json!({ "a": 9_007_199_254_740_993_u64 });
        let exact = BusinessKey::new(&9_007_199_254_740_993_u64);
        let rounded = BusinessKey::new(&9_007_199_254_740_992_u64);
        finds("the path of /a", || {
            check_place(Some(&json), "/a", &exact, &rounded);
        });
    }
}
