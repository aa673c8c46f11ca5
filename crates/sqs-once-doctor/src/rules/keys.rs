//! Permissions for customer-managed KMS keys.

use super::permissions::{Need, lacking};
use super::{Problem, found};
use crate::field::Field;
use crate::model::{Deployment, Function, Target};
use crate::remedy::Remedy;

const DECRYPT: &str = "kms:Decrypt";
/// SQS asks for a data key when the function sends to an encrypted queue, and decrypts it to check it.
const SEND: [&str; 2] = ["kms:GenerateDataKey", DECRYPT];

/// A function, a key that it uses, the actions that it needs, and what for.
type Use<'a> = (
    &'a Function,
    &'a Field<Target>,
    Vec<&'static str>,
    &'static str,
);

/// The keys that the consumers use.
fn used(deployment: &Deployment) -> Vec<Use<'_>> {
    let mut used = Vec::new();
    for consumer in deployment.consumers() {
        let Some(function) = consumer.function else {
            continue;
        };
        if let Some(queue) = consumer.queue {
            let purpose = "Lambda receives messages that are encrypted with it.";
            used.push((function, &queue.key, vec![DECRYPT], purpose));
        }
        if let Some(queue) = deployment.sent_to(&consumer) {
            let purpose = "The function sends to a dead-letter queue that is encrypted with it.";
            used.push((function, &queue.key, SEND.to_vec(), purpose));
        }
        if let Some(table) = deployment.table(function.reference("SQS_ONCE_TABLE")) {
            let purpose = "DynamoDB decrypts the table for the function with it.";
            used.push((function, &table.key, vec![DECRYPT], purpose));
        }
    }
    used
}

/// Finds a role that may not use a key of the deployment.
pub(super) fn permission_missing(deployment: &Deployment) -> Vec<Problem> {
    let used = used(deployment).into_iter();
    found(used, |(function, key, actions, purpose)| {
        let target = key.known()?;
        // The key's policy may admit the role itself.
        let mut keys = deployment
            .keys
            .iter()
            .filter(|key| key.delegates == Some(true));
        let resource = keys.find(|key| target.is(&key.site.id))?.site.id.clone();
        let need = Need {
            resource,
            actions,
            purpose,
        };
        lacking(function, need)
    })
}

/// Finds a role that may use a key elsewhere only if the key's policy says so.
pub(super) fn elsewhere(deployment: &Deployment) -> Vec<Problem> {
    let used = used(deployment).into_iter();
    found(used, |(function, key, mut actions, purpose)| {
        let Field::Known(Target::Other(name), place) = key else {
            return None;
        };
        actions.retain(|action| !function.permissions.may_somewhere(action));
        // Every role of the account may use a key that AWS manages.
        if name.starts_with("alias/aws/") || actions.is_empty() {
            return None;
        }
        let message = format!(
            "The role of the function {} does not allow {} on any key, and {name} is a key elsewhere. {purpose}",
            function.site.id,
            actions.join(", ")
        );
        let remedy = Remedy::Advice(
            "Allow the role the actions, with the key's ARN as the resource.\n\
             Or see to it that the key's policy admits the role: --allow key-policy-decides",
        );
        Some(Problem::at(place, message, remedy))
    })
}
