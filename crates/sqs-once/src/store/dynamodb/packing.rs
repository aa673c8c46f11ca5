//! Which commits share a transaction.

use crate::store::{Settlement, Writes};

use super::writes::{Keys, Write};

/// The most items of a transaction, and its most bytes.
const ITEMS: usize = 100;
const BYTES: usize = 4 * 1024 * 1024;

/// A settlement, with the writes that commit with it.
pub(super) type Commit<'a> = (&'a Settlement, &'a Writes);

/// Distributes commits over as few transactions as the limits allow, in order. Each inner list is a chain of transactions
/// of which each changes an item that the one before it changes too, so that they must not be in flight together.
///
/// A transaction accepts one operation for each item. Two puts whose key no write shows may be of one item. DynamoDB then
/// rejects their transaction.
pub(super) fn packed<'a>(commits: &[Commit<'a>]) -> Vec<Vec<Vec<Commit<'a>>>> {
    let writes: Vec<_> = commits.iter().map(|(_, writes)| writes.all()).collect();
    let keys = Keys::shown_by(writes.iter().flatten());
    let mut chains: Vec<Vec<Vec<Commit<'a>>>> = Vec::new();
    let mut taken: Vec<&Write<'_>> = Vec::new();
    let (mut items, mut bytes) = (0, 0);
    for (commit, writes) in commits.iter().zip(&writes) {
        let (more_items, more_bytes) = (writes.len() + 1, commit.1.size());
        let is_taken = |write| taken.iter().any(|other| keys.are_of_one_item(other, write));
        let fits = items + more_items <= ITEMS && bytes + more_bytes <= BYTES;
        let transaction = match (chains.last_mut(), writes.iter().any(is_taken)) {
            (Some(chain), false) if fits => chain.last_mut(),
            (Some(chain), true) => {
                chain.push(Vec::new());
                chain.last_mut()
            }
            _ => {
                chains.push(vec![Vec::new()]);
                chains.last_mut().and_then(|chain| chain.last_mut())
            }
        };
        let Some(transaction) = transaction else {
            continue;
        };
        if transaction.is_empty() {
            taken.clear();
            (items, bytes) = (0, 0);
        }
        transaction.push(*commit);
        taken.extend(writes);
        items += more_items;
        bytes += more_bytes;
    }
    chains
}
