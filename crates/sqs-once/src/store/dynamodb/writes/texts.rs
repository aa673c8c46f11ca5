//! The texts and numbers that a write carries.

use aws_sdk_dynamodb::types::AttributeValue;

use crate::store::dynamodb::table::Attributes;

use super::Write;

/// All that a message of DynamoDB's may quote of a write.
pub(crate) fn of<'a>(write: &Write<'a>) -> Vec<&'a str> {
    let mut texts = Vec::new();
    attributes(write.attributes, &mut texts);
    if let Some(values) = write.values {
        attributes(values, &mut texts);
    }
    texts
}

fn attributes<'a>(of: &'a Attributes, texts: &mut Vec<&'a str>) {
    for one in of.values() {
        value(one, texts);
    }
}

fn value<'a>(of: &'a AttributeValue, texts: &mut Vec<&'a str>) {
    match of {
        AttributeValue::S(text) | AttributeValue::N(text) => texts.push(text),
        AttributeValue::Ss(all) | AttributeValue::Ns(all) => {
            texts.extend(all.iter().map(String::as_str));
        }
        AttributeValue::L(all) => all.iter().for_each(|one| value(one, texts)),
        AttributeValue::M(all) => attributes(all, texts),
        // Bytes are not quoted, and of the rest nothing tells anybody anything.
        _ => {}
    }
}
