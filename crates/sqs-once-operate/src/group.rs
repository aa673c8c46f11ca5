//! Groups of dead letters whose reasons differ only in details.

use sqs_once::key::Fingerprint;

use crate::DeadLetter;

const QUOTES: [u8; 3] = *b"\"'`";
/// A UUID's hexadecimal digits, between its hyphens.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];
const UUID: usize = 36;
/// The shortest word of letters that counts as hexadecimal digits, and the shortest ID.
const LONG_WORD: usize = 8;

/// Dead letters with one cause.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Group {
    /// The name of the group: eight hexadecimal digits, [`MOVED_BY_SQS`](Self::MOVED_BY_SQS) or
    /// [`NO_REASON`](Self::NO_REASON).
    pub id: String,
    /// What the reasons of its messages have in common: see [`shape`](Self::shape).
    pub reason: String,
}

impl Group {
    /// The ID of the group of messages that SQS itself moved. They have no reason.
    pub const MOVED_BY_SQS: &str = "moved-by-sqs";
    /// The ID of the group of messages that were sent to the queue without a reason.
    pub const NO_REASON: &str = "no-reason";

    pub(crate) fn of(letter: &DeadLetter) -> Self {
        let (id, reason) = match letter.reason() {
            _ if letter.is_moved_by_sqs() => (
                Self::MOVED_BY_SQS.to_owned(),
                "moved by SQS: received too often".to_owned(),
            ),
            None => (
                Self::NO_REASON.to_owned(),
                "sent without a reason".to_owned(),
            ),
            Some(reason) => {
                let reason = Self::shape(reason);
                // The text before the reason keeps it from being read as JSON.
                let print = Fingerprint::from_body(&format!("reason: {reason}"));
                let (_, digits) = print.as_str().split_once(':').unwrap_or_default();
                (digits.chars().take(8).collect(), reason)
            }
        };
        Self { id, reason }
    }

    /// Replaces the details of a reason: quoted text by `…`, and numbers, UUIDs, hexadecimal digits and IDs by `#`.
    ///
    /// ```
    /// use sqs_once_operate::Group;
    ///
    /// let reason = r#"order 42 of "Ann": 12.50 EUR refused"#;
    /// assert_eq!(Group::shape(reason), r#"order # of "…": # EUR refused"#);
    /// ```
    pub fn shape(reason: &str) -> String {
        without_lists(&without_codes(&without_quoted(reason)))
    }
}

/// Replaces quoted text by `…`. A quote inside a word is an apostrophe.
fn without_quoted(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_word = |at: Option<usize>| {
        at.and_then(|at| bytes.get(at))
            .is_some_and(u8::is_ascii_alphanumeric)
    };
    let mut kept = String::with_capacity(text.len());
    let (mut from, mut at) = (0, 0);
    // Quotes that do not close: a second search would fail again.
    let mut unclosed = Vec::new();
    while at < bytes.len() {
        let quote = bytes[at];
        if QUOTES.contains(&quote) && !unclosed.contains(&quote) && !is_word(at.checked_sub(1)) {
            let closes = |end: &usize| bytes[*end] == quote && !is_word(Some(end + 1));
            match (at + 1..bytes.len()).find(closes) {
                Some(end) => {
                    kept.push_str(&text[from..=at]);
                    kept.push('…');
                    (from, at) = (end, end);
                }
                None => unclosed.push(quote),
            }
        }
        at += 1;
    }
    kept.push_str(&text[from..]);
    kept
}

/// Replaces UUIDs, hexadecimal digits, IDs and numbers.
fn without_codes(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest
            .find(|char: char| !char.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let is_uuid = starts_with_uuid(rest);
        let end = match word {
            _ if is_uuid => UUID,
            0 => first.len_utf8(),
            word => word,
        };
        let (taken, next) = rest.split_at(end);
        match is_uuid || is_code(taken) {
            true => kept.push('#'),
            false => {
                let parts = taken.split(|char: char| char.is_ascii_digit());
                let parts: Vec<_> = parts.collect();
                kept.push_str(&parts.join("#"));
            }
        }
        rest = next;
    }
    kept
}

fn starts_with_uuid(text: &str) -> bool {
    let Some((digits, rest)) = text.split_at_checked(UUID) else {
        return false;
    };
    let is_hex = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    digits.split('-').map(str::len).eq(UUID_PARTS)
        && digits.split('-').all(is_hex)
        && !rest.starts_with(|next: char| next.is_ascii_alphanumeric())
}

/// Whether a word is hexadecimal digits, or an ID of letters and digits.
fn is_code(word: &str) -> bool {
    let bytes = word.as_bytes();
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let is_long = bytes.len() >= LONG_WORD;
    let is_hex = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_hexdigit);
    let is_mixed = bytes
        .windows(2)
        .any(|pair| is_digit(&pair[0]) && pair[1].is_ascii_alphabetic());
    is_hex && (is_long || bytes.iter().any(is_digit)) || is_long && is_mixed
}

/// Takes numbers with `.`, `,` or `:` between them for one, such as amounts, times and lists.
fn without_lists(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for char in text.chars() {
        if char == '#' {
            let number = kept.strip_suffix(['.', ',', ':']).unwrap_or(&kept);
            if number.ends_with('#') {
                kept.truncate(number.len());
                continue;
            }
        }
        kept.push(char);
    }
    kept
}
