//! A key's parts, read back.

/// One part of a key.
#[derive(Clone, Copy)]
pub(super) enum Part<'a> {
    Text(&'a str),
    /// Its decimal digits.
    Integer(&'a str),
    Boolean(bool),
    Bytes(&'a [u8]),
}

/// The parts of a key that a [`KeyWriter`](super::KeyWriter) has written.
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
