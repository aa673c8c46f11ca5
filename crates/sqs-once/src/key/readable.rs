//! The form of a key that people can read.

use super::hex;
use super::parts::{Part, parts};

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
