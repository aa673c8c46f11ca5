//! Text in one Unicode form.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::is_nfc;

/// A text in Unicode's normalization form C, as a key or a part of one (feature `nfc`).
///
/// Keys count byte by byte: `é` as one character and as `e` with an accent are two keys. Use this where producers may write
/// either, such as a file system that decomposes names. It changes the key of every text that is not in this form yet.
///
/// ```
/// use sqs_once::{BusinessKey, key::nfc};
///
/// let (composed, decomposed) = ("Zo\u{eb}", "Zoe\u{308}");
/// assert_ne!(BusinessKey::new(composed)?, BusinessKey::new(decomposed)?);
/// assert_eq!(BusinessKey::new(&nfc(composed))?, BusinessKey::new(&nfc(decomposed))?);
/// # Ok::<(), sqs_once::key::KeyError>(())
/// ```
pub fn nfc(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    match is_nfc(text) {
        true => text.to_owned(),
        false => text.nfc().collect(),
    }
}
