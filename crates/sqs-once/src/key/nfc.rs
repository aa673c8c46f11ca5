//! Unicode normalization of text.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::is_nfc;

/// Returns a text in Unicode's normalization form C, for a key or a part of a key (feature `nfc`).
///
/// Keys are compared byte by byte: `é` as one character and `e` with an accent are two keys. Use this function if
/// producers may write either form, such as a file system that decomposes names. It changes the key of every text that
/// is not in this form.
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
