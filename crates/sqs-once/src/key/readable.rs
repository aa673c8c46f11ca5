//! The form of a key that people can read.

use super::parts::{Part, parts};
use super::{KeyError, KeyPart, KeyWriter, hex};

/// Writes a key's parts, such as `s:tenant-7,i:42`: each with its kind, `s` for text, `i` for an integer,
/// `b` for a boolean and `x` for bytes in hexadecimal digits. What is not visible ASCII is escaped, and so
/// are `%` and `,`, as `%` and two digits a byte: no two keys are written alike.
pub(super) fn readable(encoded: &[u8]) -> Option<String> {
    let readable = parts(encoded)?.into_iter().map(|part| match part {
        Part::Text(text) => format!("s:{}", escaped(text)),
        Part::Integer(digits) => format!("i:{digits}"),
        Part::Boolean(value) => format!("b:{value}"),
        Part::Bytes(bytes) => format!("x:{}", hex(bytes)),
    });
    Some(readable.collect::<Vec<_>>().join(","))
}

fn escaped(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_graphic() && !b"%,".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Writes the parts of a key that is given in this form. What it takes for a key may be written otherwise: the
/// caller compares.
pub(super) fn write(text: &str, key: &mut KeyWriter) -> Result<(), KeyError> {
    for part in text.split(',') {
        let (kind, value) = part.split_once(':').ok_or(KeyError::Malformed)?;
        match kind {
            "s" => key.text(&unescaped(value).ok_or(KeyError::Malformed)?)?,
            "x" => key.bytes(&unhex(value).ok_or(KeyError::Malformed)?)?,
            "i" if value.starts_with('-') => number::<i128>(value)?.write(key)?,
            "i" => number::<u128>(value)?.write(key)?,
            "b" => match value {
                "true" => true.write(key)?,
                "false" => false.write(key)?,
                _ => return Err(KeyError::Malformed),
            },
            _ => return Err(KeyError::Malformed),
        }
    }
    Ok(())
}

fn number<N: std::str::FromStr>(value: &str) -> Result<N, KeyError> {
    value.parse().map_err(|_| KeyError::Malformed)
}

fn unescaped(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((plain, escaped)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        bytes.extend(unhex(escaped.get(..2)?)?);
        rest = &escaped[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()
    };
    let bytes: Option<_> = pairs.iter().map(byte).collect();
    bytes.filter(|_| rest.is_empty())
}
