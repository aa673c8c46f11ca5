//! The form of a key that people can read.

use super::hex;

/// Writes a key's parts, such as `s:tenant-7,i:42`: each with its kind, `s` for text, `i` for an integer,
/// `b` for a boolean and `x` for bytes in hexadecimal digits. What is not visible ASCII is escaped, and so
/// are `%` and `,`, as `%` and two digits a byte: no two keys are written alike.
pub(super) fn readable(encoded: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    let mut rest = encoded;
    while let Some((&kind, after)) = rest.split_first() {
        let (len, after) = after.split_first_chunk()?;
        let len = usize::try_from(u64::from_be_bytes(*len)).ok()?;
        let (value, after) = after.split_at_checked(len)?;
        let value = if kind == b'x' {
            hex(value)
        } else {
            escaped(value)
        };
        parts.push(format!("{}:{value}", char::from(kind)));
        rest = after;
    }
    Some(parts.join(","))
}

fn escaped(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for &byte in value {
        if byte.is_ascii_graphic() && !b"%,".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
