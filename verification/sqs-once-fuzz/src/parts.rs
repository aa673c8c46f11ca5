//! Compares the keys of two lists of parts.

use std::rc::Rc;
use std::sync::Arc;

use sqs_once::BusinessKey;
use sqs_once::key::KeyError;
use sqs_once::key::{ItemId, KeyPart, KeyWriter, Namespace};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Integer(i128),
    Unsigned(u128),
    Bool(bool),
    Char(char),
    Bytes(Vec<u8>),
    Nothing,
    Failed,
}

/// The canonical form of a part: equal for equal parts, different for different parts.
type Canonical = (char, Vec<u8>);

impl Part {
    /// Writes the part as a type that fits, chosen by `variant`. Every choice writes an equal part.
    fn write(&self, variant: u8, key: &mut KeyWriter) -> Result<(), KeyError> {
        match (self, variant % 4) {
            (Self::Text(text), 0) => text.write(key),
            (Self::Text(text), 1) => (&text.as_str(),).0.write(key),
            (Self::Text(text), 2) => Rc::<str>::from(&**text).write(key),
            (Self::Text(text), _) => Some(Arc::new(text)).write(key),
            (Self::Integer(number), variant) => match (variant, i64::try_from(*number)) {
                (1, Ok(number)) => number.write(key),
                (2, Ok(number)) => Ok::<_, KeyError>(number).write(key),
                _ => number.write(key),
            },
            (Self::Unsigned(number), variant) => {
                match (variant, i128::try_from(*number), u8::try_from(*number)) {
                    (1, Ok(number), _) => number.write(key),
                    (2, _, Ok(number)) => number.write(key),
                    _ => number.write(key),
                }
            }
            (Self::Bool(value), 1) => (&&value).write(key),
            (Self::Bool(value), _) => value.write(key),
            (Self::Char(char), 1) => char.to_string().write(key),
            (Self::Char(char), _) => char.write(key),
            (Self::Bytes(bytes), 1) => bytes.as_slice().write(key),
            (Self::Bytes(bytes), _) => bytes.write(key),
            (Self::Nothing, _) => None::<u8>.write(key),
            (Self::Failed, 1) => Err::<u8, _>(KeyError::Missing).write(key),
            (Self::Failed, _) => Err::<u8, _>("the key is secret").write(key),
        }
    }

    fn canonical(&self, variant: u8) -> Result<Canonical, KeyError> {
        let filled = |is_filled: bool, part: Canonical| match is_filled {
            true => Ok(part),
            false => Err(KeyError::Empty),
        };
        match self {
            Self::Text(text) => filled(!text.trim().is_empty(), ('s', text.clone().into_bytes())),
            Self::Char(char) => filled(!char.is_whitespace(), ('s', char.to_string().into_bytes())),
            Self::Integer(number) => Ok(('i', number.to_string().into_bytes())),
            Self::Unsigned(number) => Ok(('i', number.to_string().into_bytes())),
            Self::Bool(value) => Ok(('b', value.to_string().into_bytes())),
            Self::Bytes(bytes) => filled(!bytes.is_empty(), ('x', bytes.clone())),
            Self::Nothing => Err(KeyError::Missing),
            Self::Failed if variant % 4 == 1 => Err(KeyError::Missing),
            Self::Failed => Err(KeyError::extractor("the key is secret")),
        }
    }
}

/// The parts of a key, each with the variant that chooses its type.
#[derive(Debug)]
struct Parts(Vec<(Part, u8)>);

impl KeyPart for Parts {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        self.0
            .iter()
            .try_for_each(|(part, variant)| part.write(*variant, key))
    }
}

impl Parts {
    fn canonical(&self) -> Result<Vec<Canonical>, KeyError> {
        let parts = self
            .0
            .iter()
            .map(|(part, variant)| part.canonical(*variant));
        let parts: Vec<_> = parts.collect::<Result<_, _>>()?;
        // Each part has a prefix of its kind and its length.
        let len = parts.iter().map(|(_, bytes)| 9 + bytes.len()).sum();
        match len {
            0 => Err(KeyError::Empty),
            len if len > BusinessKey::MAX_LEN => Err(KeyError::TooLong { len }),
            _ => Ok(parts),
        }
    }

    /// A list that a weaker encoding would confuse with this one.
    fn lookalike(&self, how: u8, at: usize) -> Self {
        let mut parts = self.0.clone();
        let at = at % parts.len().max(1);
        let next = parts.get(at + 1).map(|(part, _)| part.clone());
        match (how % 8, parts.get_mut(at), next) {
            // The same key with other types.
            (0, ..) => {
                for (_, variant) in &mut parts {
                    *variant = variant.wrapping_add(1);
                }
            }
            // Moves a character to the previous part.
            (1, Some((Part::Text(one), _)), Some(Part::Text(next))) => {
                let mut rest = next.chars();
                one.extend(rest.next());
                parts[at + 1].0 = Part::Text(rest.collect());
            }
            // Merges two parts.
            (2, Some((Part::Text(one), _)), Some(Part::Text(next))) => {
                one.push_str(&next);
                parts.remove(at + 1);
            }
            (3, Some((part, _)), _) => {
                *part = match &*part {
                    Part::Integer(number) => Part::Text(number.to_string()),
                    Part::Unsigned(number) => Part::Text(number.to_string()),
                    Part::Bool(value) => Part::Text(value.to_string()),
                    Part::Text(text) => Part::Bytes(text.clone().into_bytes()),
                    Part::Bytes(bytes) => Part::Text(String::from_utf8_lossy(bytes).into_owned()),
                    other => other.clone(),
                };
            }
            (4, Some((part, _)), _) => {
                *part = match &*part {
                    Part::Integer(number) => Part::Unsigned(number.unsigned_abs()),
                    Part::Unsigned(number) => Part::Integer(number.cast_signed()),
                    Part::Text(text) => Part::Text(text.to_lowercase()),
                    Part::Char(char) => Part::Text(char.to_string()),
                    other => other.clone(),
                };
            }
            (5, ..) => {
                parts.pop();
            }
            (6, Some(_), Some(_)) => parts.swap(at, at + 1),
            _ => {
                let nested = parts.clone();
                parts.extend(nested);
            }
        }
        Self(parts)
    }
}

/// Reads bytes from the front, and zeros after the end.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A length byte followed by this many bytes. Lengths from 248 on represent lengths near the limit of a key.
    fn run(&mut self) -> Vec<u8> {
        match self.byte() {
            len @ 0..248 => self.take(len.into()).to_vec(),
            len => self
                .byte()
                .to_ascii_lowercase()
                .to_ne_bytes()
                .repeat(2032 + usize::from(len - 248)),
        }
    }

    fn number(&mut self, len: usize) -> u128 {
        let bytes = self.take(len).iter();
        bytes.fold(0, |number, byte| number << 8 | u128::from(*byte))
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.run()).into_owned()
    }

    fn part(&mut self) -> (Part, u8) {
        let kind = self.byte();
        let part = match kind % 10 {
            0..=2 => Part::Text(self.text()),
            3 => Part::Integer(self.number(8).cast_signed()),
            4 => Part::Integer(self.number(16).cast_signed()),
            5 => Part::Unsigned(self.number(8)),
            6 => Part::Bool(self.byte() % 2 == 1),
            7 => Part::Char(char::from(self.byte())),
            8 => Part::Bytes(self.run()),
            _ if kind > 200 => Part::Failed,
            _ => Part::Nothing,
        };
        (part, kind / 10)
    }

    fn parts(&mut self) -> Parts {
        let count = self.byte() % 5;
        Parts((0..count).map(|_| self.part()).collect())
    }
}

/// Checks the promises of keys and of their ids:
///
/// - A list of parts is a key unless it is empty or too long, or a part is missing, blank or an error. The error names
///   the reason.
/// - Two keys have the same id, hashed or readable, exactly if their parts are equal, whatever types they had.
/// - An id shows the namespace. Its short form for logs never shows the key.
///
/// # Panics
/// If the library breaks a promise.
pub fn key(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.byte();
    let one = input.parts();
    let other = match how {
        // An unrelated list.
        240.. => input.parts(),
        how => one.lookalike(how, usize::from(how / 8)),
    };
    for readable in [false, true] {
        let namespace = Namespace::new("fuzz").expect("a good name");
        let namespace = namespace.readable_keys(readable);
        let id = |key: &BusinessKey| namespace.item_id(key);
        if let Some(id) = compare(&one, &other, id) {
            check_id(&id, &one, readable);
        }
    }
}

/// Checks that two lists have the same id exactly if their keys are equal. Returns the first id if both are keys.
fn compare(one: &Parts, other: &Parts, id: impl Fn(&BusinessKey) -> ItemId) -> Option<ItemId> {
    let (key, parts) = checked(one)?;
    let (other_key, other_parts) = checked(other)?;
    let are_equal = parts == other_parts;
    assert_eq!(key == other_key, are_equal, "{one:?} and {other:?}");
    let (id, other_id) = (id(&key), id(&other_key));
    assert_eq!(
        id == other_id,
        are_equal,
        "{one:?} and {other:?}: {id} and {other_id}"
    );
    Some(id)
}

fn checked(parts: &Parts) -> Option<(BusinessKey, Vec<Canonical>)> {
    match (BusinessKey::new(parts), parts.canonical()) {
        (Ok(key), Ok(parts)) => Some((key, parts)),
        (Err(error), Err(expected)) => {
            assert_eq!(error, expected, "{parts:?}");
            assert!(!error.to_string().contains("secret"));
            None
        }
        (found, expected) => panic!("{parts:?}: {found:?} instead of {expected:?}"),
    }
}

fn check_id(id: &ItemId, parts: &Parts, readable: bool) {
    let is_hex = |text: &str| text.bytes().all(|byte| b"0123456789abcdef".contains(&byte));
    let (full, short) = (id.as_str(), id.short());
    let [key, digits] = [full, &*short].map(|id| {
        let rest = id.strip_prefix("fuzz#");
        rest.expect("the namespace stands first")
    });
    assert!(digits.len() == 12 && is_hex(digits), "{short}");
    let is_digest = key.len() == 64 && is_hex(key);
    assert!(is_digest || readable, "{key}");
    assert!(id.as_str().len() <= ItemId::MAX_READABLE_LEN);
    // Every key that fits is shown, and no such key is a digest.
    let text = |part: &Part| match part {
        Part::Text(text) => Some(text.clone()),
        _ => None,
    };
    if let [(part, _)] = &parts.0[..]
        && let Some(text) = text(part).filter(|_| readable)
        && text.len() < 300
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        assert_eq!(key.strip_prefix("s:"), Some(&*text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finds;

    fn texts(texts: [&str; 2]) -> Parts {
        let texts = texts.map(|text| (Part::Text(text.to_owned()), 0));
        Parts(texts.to_vec())
    }

    #[test]
    fn an_id_that_two_keys_share_and_one_without_its_namespace_are_found() {
        let both = |_: &BusinessKey| ItemId::from_stored("ab");
        finds("ab and ab", || {
            compare(&texts(["a", "bc"]), &texts(["ab", "c"]), both);
        });
        finds("the namespace stands first", || {
            check_id(&ItemId::from_stored("o-1"), &texts(["o-1", ""]), true);
        });
    }
}
