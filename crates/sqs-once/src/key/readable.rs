//! The parts of a key, and their readable form.

use super::{KeyError, KeyPart, KeyWriter, hex};

#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Integer(&'a str),
    Boolean(bool),
    Bytes(&'a [u8]),
}

/// Decodes the parts of a key that a [`KeyWriter`](super::KeyWriter) wrote.
pub(super) fn parts(encoded: &[u8]) -> Option<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = encoded;
    while let Some((&kind, after)) = rest.split_first() {
        let (len, after) = after.split_first_chunk()?;
        let len = usize::try_from(u64::from_be_bytes(*len)).ok()?;
        let (value, after) = after.split_at_checked(len)?;
        parts.push(match kind {
            b's' => Part::Text(std::str::from_utf8(value).ok()?),
            b'i' => Part::Integer(std::str::from_utf8(value).ok()?),
            b'b' => Part::Boolean(value == b"true"),
            b'x' => Part::Bytes(value),
            _ => return None,
        });
        rest = after;
    }
    Some(parts)
}

/// Returns a key's parts in readable form, such as `s:tenant-7,i:42`. Each part has its kind: `s` for text, `i` for an
/// integer, `b` for a boolean and `x` for bytes in hexadecimal digits. Bytes that are not visible ASCII are escaped as
/// `%` and two digits, and so are `%` and `,`. Different keys therefore have different forms.
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

/// Writes the parts of a readable form into `key`. Also accepts other spellings of the key, which the caller rejects.
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
