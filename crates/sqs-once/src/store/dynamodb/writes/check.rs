//! Finds writes that DynamoDB would refuse in any case, before a request is sent.

use super::size;
use super::write::Write;
use super::{WriteName, WritesError};

/// DynamoDB takes 100 in a transaction, and one is the record of the key.
pub(super) const MOST_WRITES: usize = 99;
/// DynamoDB takes 4 MB in a transaction. What is left is for the record of the key, apart from its data.
pub(super) const MOST_BYTES: usize = 4 * 1024 * 1024 - 4 * 1024;

pub(super) fn rules<'a>(
    count: usize,
    mut indices: impl Iterator<Item = &'a usize>,
) -> Result<(), WritesError> {
    match indices.find(|index| **index >= count) {
        Some(&index) => Err(WritesError::NoSuchWrite { index, count }),
        None => Ok(()),
    }
}

/// `data` is how many bytes are recorded with the key.
pub(super) fn writes(writes: &[Write<'_>], data: usize) -> Result<(), WritesError> {
    if writes.len() > MOST_WRITES {
        let count = writes.len();
        return Err(WritesError::TooMany { count });
    }
    let sizes = writes.iter().map(|write| {
        let values = write.values.into_iter().flat_map(|values| values.values());
        size::attributes(write.attributes) + values.map(size::value).sum::<usize>()
    });
    let bytes = sizes.sum::<usize>() + data;
    if bytes > MOST_BYTES {
        return Err(WritesError::TooLarge { bytes });
    }
    for write in writes {
        if write.table.is_empty() {
            return Err(WritesError::NoTable {
                write: write.name(),
            });
        }
        if write.attributes.is_empty() {
            return Err(WritesError::NoKey {
                write: write.name(),
            });
        }
    }
    match same_item(writes) {
        Some((first, second)) => Err(WritesError::SameItem { first, second }),
        None => Ok(()),
    }
}

fn same_item(writes: &[Write<'_>]) -> Option<(WriteName, WriteName)> {
    let pairs = writes
        .iter()
        .enumerate()
        .flat_map(|(at, second)| writes[..at].iter().map(move |first| (first, second)));
    let mut same = pairs.filter(|(first, second)| {
        first.table == second.table
            && match (first.is_put(), second.is_put()) {
                (_, false) => first.is_of(second.table, second.attributes),
                (false, true) => second.is_of(first.table, first.attributes),
                (true, true) => are_put_to_one_item(first, second, writes),
            }
    });
    same.next()
        .map(|(first, second)| (first.name(), second.name()))
}

/// A put does not say which of its attributes are the key: another write of the table may, and so do two puts that are
/// the same.
fn are_put_to_one_item(first: &Write<'_>, second: &Write<'_>, writes: &[Write<'_>]) -> bool {
    if first.attributes == second.attributes {
        return true;
    }
    let shows_key = |write: &&Write<'_>| !write.is_put() && write.table == first.table;
    writes.iter().find(shows_key).is_some_and(|write| {
        write.attributes.keys().all(|name| {
            let value = first.attributes.get(name);
            value.is_some() && value == second.attributes.get(name)
        })
    })
}
