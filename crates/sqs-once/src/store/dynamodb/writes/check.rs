//! Finds writes that DynamoDB would always refuse, before a request is sent.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::dynamodb::table::Attributes;

use super::{Write, WritesError};

/// DynamoDB accepts 100 writes in a transaction, and one of them is the completion of the key.
pub(super) const MOST_WRITES: usize = 99;
/// DynamoDB accepts 4 MB in a transaction. The 4 KiB are for the completion of the key without its value.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024 - RECORD_BYTES;
pub(super) const RECORD_BYTES: usize = 4 * 1024;

/// The overhead in bytes of a document and of each of its elements.
const DOCUMENT: usize = 3;
const ELEMENT: usize = 1;

/// Checks the writes. `data` is the size of the completion's value in bytes.
pub(super) fn writes(writes: &[Write<'_>], data: usize) -> Result<(), WritesError> {
    if writes.len() > MOST_WRITES {
        let count = writes.len();
        return Err(WritesError::TooMany { count });
    }
    let bytes = size(writes) + data;
    if bytes > MOST_BYTES {
        return Err(WritesError::TooLarge { bytes });
    }
    for write in writes {
        if write.table.is_empty() {
            return Err(WritesError::NoTable {
                write: write.name().to_string(),
            });
        }
        if write.attributes.is_empty() {
            return Err(WritesError::NoKey {
                write: write.name().to_string(),
            });
        }
    }
    match same_item(writes) {
        Some((first, second)) => Err(WritesError::SameItem { first, second }),
        None => Ok(()),
    }
}

/// Returns the size of the writes in bytes.
pub(super) fn size(writes: &[Write<'_>]) -> usize {
    let sizes = writes.iter().map(|write| {
        let values = write.values.into_iter().flat_map(|values| values.values());
        attributes_size(write.attributes) + values.map(value_size).sum::<usize>()
    });
    sizes.sum()
}

fn same_item(writes: &[Write<'_>]) -> Option<(String, String)> {
    let keys = Keys::shown_by(writes);
    let pairs = writes
        .iter()
        .enumerate()
        .flat_map(|(at, second)| writes[..at].iter().map(move |first| (first, second)));
    let mut same = pairs.filter(|(first, second)| keys.are_of_one_item(first, second));
    same.next()
        .map(|(first, second)| (first.name().to_string(), second.name().to_string()))
}

/// The keys of tables, by the name of the table. A put does not show which of its attributes are the key, but another
/// write to the table does.
pub(crate) struct Keys<'a>(HashMap<&'a str, &'a Attributes>);

impl<'a> Keys<'a> {
    pub(crate) fn shown_by<'w>(writes: impl IntoIterator<Item = &'w Write<'a>>) -> Self
    where
        'a: 'w,
    {
        let writes = writes.into_iter().filter(|write| !write.is_put());
        Self(
            writes
                .map(|write| (write.table, write.attributes))
                .collect(),
        )
    }

    /// Returns whether two writes are certain to change the same item.
    pub(crate) fn are_of_one_item(&self, first: &Write<'_>, second: &Write<'_>) -> bool {
        first.table == second.table
            && match (first.is_put(), second.is_put()) {
                (_, false) => first.is_of(second.table, second.attributes),
                (false, true) => second.is_of(first.table, first.attributes),
                (true, true) => self.are_put_to_one_item(first, second),
            }
    }

    fn are_put_to_one_item(&self, first: &Write<'_>, second: &Write<'_>) -> bool {
        let have_one_key = |key: &&Attributes| {
            key.keys().all(|name| {
                let value = first.attributes.get(name);
                value.is_some() && value == second.attributes.get(name)
            })
        };
        first.attributes == second.attributes || self.0.get(first.table).is_some_and(have_one_key)
    }
}

fn attributes_size(attributes: &Attributes) -> usize {
    let sizes = attributes
        .iter()
        .map(|(name, of)| name.len().saturating_add(value_size(of)));
    sizes.sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => number_size(digits),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(|digits| number_size(digits)).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(list) => {
            DOCUMENT
                + list
                    .iter()
                    .map(|one| ELEMENT + value_size(one))
                    .sum::<usize>()
        }
        AttributeValue::M(map) => DOCUMENT + ELEMENT * map.len() + attributes_size(map),
        // A boolean, a null, or a future type.
        _ => 1,
    }
}

/// Returns the size of a number: a byte for every two digits, one byte more, and one for a sign.
fn number_size(digits: &str) -> usize {
    let sign = usize::from(digits.starts_with('-'));
    digits.len().div_ceil(2) + 1 + sign
}
