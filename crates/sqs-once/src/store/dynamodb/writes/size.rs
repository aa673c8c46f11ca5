//! How many bytes DynamoDB counts.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::dynamodb::table::Attributes;

/// What a document counts for itself, and for each of its elements.
const DOCUMENT: usize = 3;
const ELEMENT: usize = 1;

/// The names and the values.
pub(super) fn attributes(attributes: &Attributes) -> usize {
    let sizes = attributes
        .iter()
        .map(|(name, of)| name.len().saturating_add(value(of)));
    sizes.sum()
}

pub(super) fn value(value_of: &AttributeValue) -> usize {
    match value_of {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => number(digits),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Ss(texts) => texts.iter().map(String::len).sum(),
        AttributeValue::Ns(numbers) => numbers.iter().map(|digits| number(digits)).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(list) => {
            DOCUMENT + list.iter().map(|one| ELEMENT + value(one)).sum::<usize>()
        }
        AttributeValue::M(map) => DOCUMENT + ELEMENT * map.len() + attributes(map),
        // A truth value, a null, and whatever is to come.
        _ => 1,
    }
}

/// Two digits a byte, one byte for itself, and one for a sign.
fn number(digits: &str) -> usize {
    let sign = usize::from(digits.starts_with('-'));
    digits.len().div_ceil(2) + 1 + sign
}
