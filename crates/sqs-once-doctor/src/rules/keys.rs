//! Permissions for customer-managed KMS keys.

use super::Problem;
use super::permissions::{Need, lacking};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::model::{Deployment, Function, Queue, Target};
use crate::remedy::Remedy;

const DECRYPT: &str = "kms:Decrypt";
/// SQS asks for a data key when the function sends to an encrypted queue, and decrypts it to check it.
const SEND: [&str; 2] = ["kms:GenerateDataKey", DECRYPT];

/// The keys that a consumer uses, with the actions that it needs.
fn used<'a>(
    deployment: &'a Deployment,
    consumer: &Consumer<'a>,
    function: &Function,
) -> Vec<(&'a Field<Target>, Vec<&'static str>, &'static str)> {
    let mut used = Vec::new();
    if let Some(queue) = consumer.queue {
        let purpose = "Lambda receives messages that are encrypted with it.";
        used.push((&queue.key, vec![DECRYPT], purpose));
    }
    let dead_letters = deployment.queue(function.reference("SQS_ONCE_DLQ_URL"));
    // A variable that names the source is wrong.
    let is_source = |queue: &&Queue| consumer.queue.is_some_and(|it| it.site == queue.site);
    if let Some(queue) = dead_letters.filter(|queue| !is_source(queue)) {
        let purpose = "The function sends to a dead-letter queue that is encrypted with it.";
        used.push((&queue.key, SEND.to_vec(), purpose));
    }
    let table = function.reference("SQS_ONCE_TABLE").known();
    let table = table.and_then(|it| deployment.tables.iter().find(|table| it.is(&table.site.id)));
    if let Some(table) = table {
        let purpose = "DynamoDB decrypts the table for the function with it.";
        used.push((&table.key, vec![DECRYPT], purpose));
    }
    used
}

/// Finds a role that may not use a key of the deployment.
pub(super) fn permission_missing(deployment: &Deployment, consumer: Consumer<'_>) -> Vec<Problem> {
    let Some(function) = consumer.function else {
        return Vec::new();
    };
    let used = used(deployment, &consumer, function).into_iter();
    let problem = |(key, actions, purpose): (&Field<Target>, _, _)| {
        let target = key.known()?;
        // The key's policy may admit the role itself.
        let mut keys = deployment.keys.iter().filter(|key| key.delegates);
        let resource = keys.find(|key| target.is(&key.site.id))?.site.id.clone();
        let need = Need {
            resource,
            actions,
            purpose,
        };
        lacking(function, need)
    };
    used.filter_map(problem).collect()
}

/// Finds a role that may use a key elsewhere only if the key's policy says so.
pub(super) fn elsewhere(deployment: &Deployment, consumer: Consumer<'_>) -> Vec<Problem> {
    let Some(function) = consumer.function else {
        return Vec::new();
    };
    let used = used(deployment, &consumer, function).into_iter();
    let problem = |(key, mut actions, purpose): (&Field<Target>, Vec<&str>, &str)| {
        let (Field::Known(Target::Other(name), place), permissions) = (key, &function.permissions)
        else {
            return None;
        };
        actions.retain(|action| !permissions.may_somewhere(action));
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
    };
    used.filter_map(problem).collect()
}
