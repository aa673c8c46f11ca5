//! The values that a business key can contain.

use std::any::Any;
use std::borrow::Cow;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;

use super::{BusinessKey, KeyError};

/// A value that can be a business key, or one part of it.
///
/// These are text, integers, `bool`, `char`, bytes, [`BusinessKey`], references to these, and tuples of up to six.
/// `Option` and `Result` are for optional fields and fallible extractors: `None` and `Err` make the message fail instead
/// of giving it a wrong key. Floats are excluded, because two different integers can become the same float.
///
/// For a struct, use [`#[derive(BusinessKey)]`](derive@crate::BusinessKey) and mark its key fields with `#[key]`. For
/// any other type of your own, write its parts:
///
/// ```
/// use sqs_once::key::{KeyError, KeyPart, KeyWriter};
/// use sqs_once::BusinessKey;
///
/// struct OrderId(u64);
///
/// impl KeyPart for OrderId {
///     fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
///         self.0.write(key)
///     }
/// }
///
/// assert_eq!(BusinessKey::new(&OrderId(7))?, BusinessKey::new(&7)?);
/// # Ok::<(), KeyError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a business key",
    label = "not usable as a business key",
    note = "a key is text, an integer, a bool, a char, bytes, or a tuple of these",
    note = "floats are refused because two integers can become the same float: declare the field as an integer or a `String`",
    note = "for a struct of your own, derive `sqs_once::BusinessKey` and mark its fields `#[key]`",
    note = "for a type of your own, implement `sqs_once::key::KeyPart`, or use its text: `key = order.id.to_string()`"
)]
pub trait KeyPart {
    /// Appends this part to the key.
    ///
    /// # Errors
    /// Any [`KeyError`] that makes the whole key unusable.
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError>;
}

/// An encoder for the parts of a key, each with its kind and length.
#[derive(Debug, Default)]
pub struct KeyWriter {
    encoded: Vec<u8>,
    /// Whether `None` and empty parts are allowed, as in a fingerprint.
    nothing_counts: bool,
}

impl KeyWriter {
    /// Appends text.
    ///
    /// # Errors
    /// [`KeyError::Empty`] if the text is empty or blank.
    pub fn text(&mut self, text: &str) -> Result<(), KeyError> {
        if text.trim().is_empty() && !self.nothing_counts {
            return Err(KeyError::Empty);
        }
        self.part(b's', text.as_bytes());
        Ok(())
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// [`KeyError::Empty`] if there are no bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), KeyError> {
        if bytes.is_empty() && !self.nothing_counts {
            return Err(KeyError::Empty);
        }
        self.part(b'x', bytes);
        Ok(())
    }

    fn nothing(&mut self) -> Result<(), KeyError> {
        if !self.nothing_counts {
            return Err(KeyError::Missing);
        }
        self.part(b'n', b"");
        Ok(())
    }

    pub(crate) fn integer(&mut self, digits: &str) {
        let digits = if digits == "-0" { "0" } else { digits };
        self.part(b'i', digits.as_bytes());
    }

    fn part(&mut self, kind: u8, bytes: &[u8]) {
        self.encoded
            .reserve(size_of::<u8>() + size_of::<u64>() + bytes.len());
        self.encoded.push(kind);
        self.encoded
            .extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        self.encoded.extend_from_slice(bytes);
    }

    /// Creates a writer for a fingerprint, which accepts `None`, empty parts and any length.
    pub(super) fn for_fingerprint() -> Self {
        Self {
            nothing_counts: true,
            ..Self::default()
        }
    }

    pub(super) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(super) fn finish(self) -> Result<Vec<u8>, KeyError> {
        match self.encoded.len() {
            0 => Err(KeyError::Empty),
            len if len > BusinessKey::MAX_LEN => Err(KeyError::TooLong { len }),
            _ => Ok(self.encoded),
        }
    }
}

impl KeyPart for str {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.text(self)
    }
}

impl KeyPart for String {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.text(self)
    }
}

impl KeyPart for char {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.text(self.encode_utf8(&mut [0; 4]))
    }
}

impl KeyPart for bool {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.part(b'b', if *self { b"true" } else { b"false" });
        Ok(())
    }
}

impl KeyPart for [u8] {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.bytes(self)
    }
}

impl KeyPart for Vec<u8> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.bytes(self)
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.bytes(self)
    }
}

impl KeyPart for BusinessKey {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        key.encoded.extend_from_slice(&self.encoded);
        Ok(())
    }
}

impl<K: KeyPart> KeyPart for Option<K> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        match self {
            Some(part) => part.write(key),
            None => key.nothing(),
        }
    }
}

/// Passes on a [`KeyError`] unchanged. Any other error becomes [`KeyError::Extractor`] with its text, and its type loses the
/// [choice](trait@crate::handler::ErrorDisposition) that [`KeyError::extractor`] would keep.
impl<K: KeyPart, E: Display + 'static> KeyPart for Result<K, E> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        match self {
            Ok(part) => part.write(key),
            Err(error) => Err(match (error as &dyn Any).downcast_ref::<KeyError>() {
                Some(error) => error.clone(),
                None => KeyError::extractor(error.to_string()),
            }),
        }
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl KeyPart for $integer {
            fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
                key.integer(&self.to_string());
                Ok(())
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize);
integers!(std::num::NonZeroU32 std::num::NonZeroU64 std::num::NonZeroU128);

macro_rules! pointers {
    ($($pointer:ty)*) => {$(
        impl<K: KeyPart + ?Sized> KeyPart for $pointer {
            fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
                (**self).write(key)
            }
        }
    )*};
}

pointers!(&K &mut K Box<K> Rc<K> Arc<K>);

impl<K: KeyPart + ToOwned + ?Sized> KeyPart for Cow<'_, K> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        (**self).write(key)
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        impl<$($part: KeyPart),*> KeyPart for ($($part,)*) {
            fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
                #[allow(non_snake_case, reason = "the macro names each variable after its type")]
                let ($($part,)*) = self;
                $($part.write(key)?;)*
                Ok(())
            }
        }
    )*};
}

tuples! { (A B) (A B C) (A B C D) (A B C D E) (A B C D E F) }
