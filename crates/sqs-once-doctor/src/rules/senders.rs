//! Services that send to queues, and pipes that read from them.

use super::{Problem, Setting};
use crate::field::Field;
use crate::iam::ENCRYPT;
use crate::model::{Deployment, Pipe, Sender, Target};
use crate::remedy::Remedy;

pub(super) fn not_allowed(deployment: &Deployment, sender: &Sender) -> Option<Problem> {
    let queue = deployment.queue(&sender.queue)?;
    // A nested stack or a macro may add the policy.
    if deployment.has_more || queue.admits.perhaps.contains(&sender.service) {
        return None;
    }
    let message = format!(
        "{} can't send to the queue {}: no policy of the queue allows {} sqs:SendMessage.",
        sender.site.id, queue.site.id, sender.service
    );
    let remedy = Remedy::Advice(
        "Add a statement to the queue's policy, with a condition for the sender:\n\
         Effect: Allow, Action: sqs:SendMessage, Resource: the queue's ARN, Principal: the service,\n\
         Condition: { ArnEquals: { aws:SourceArn: the ARN of the topic, the bucket or the rule } }",
    );
    let place = sender.site.place_of(&sender.queue);
    Some(Problem::at(place, message, remedy))
}

/// Finds a sender that the queue's key shuts out: AWS's own key, or one of the deployment.
pub(super) fn shut_out(deployment: &Deployment, sender: &Sender) -> Option<Problem> {
    let queue = deployment.queue(&sender.queue)?;
    let (id, name, service) = (&queue.site.id, &sender.site.id, sender.service);
    if let Field::Known(key, place) = &queue.kms_key
        && key == "alias/aws/sqs"
    {
        let message = format!("{name} can't send to the queue {id}, whose key is alias/aws/sqs.");
        let argument = "sqs_managed_sse_enabled = {} # instead of kms_master_key_id";
        let (field, setting) = (
            &Field::<bool>::Missing,
            Setting(&["SqsManagedSseEnabled"], argument),
        );
        let mut problem = Problem::set(field, &queue.site, setting, true, message);
        problem.place = place.clone();
        // The user must remove the AWS-managed key or replace it by a customer-managed one.
        return Some(problem.by_hand());
    }
    let key = deployment.key(&queue.key)?;
    let message = format!(
        "{name} can't send to the queue {id}: the policy of its key {} does not allow {service} {}.",
        key.site.id,
        ENCRYPT.join(" and ")
    );
    let remedy = Remedy::Advice(
        "Add a statement to the key's policy:\n\
         Effect: Allow, Action: [kms:GenerateDataKey, kms:Decrypt], Resource: \"*\", Principal: the service",
    );
    let place = queue.site.place_of(&queue.key);
    (!key.admits.perhaps.contains(&service)).then(|| Problem::at(place, message, remedy))
}

/// Finds a function of this library that a pipe invokes so that it ignores which messages failed.
pub(super) fn pipe(deployment: &Deployment, pipe: &Pipe) -> Option<Problem> {
    let own = |field| deployment.function(field).filter(|it| it.uses_sqs_once());
    let invocation = pipe.invocation.known();
    let is_asynchronous = invocation.is_some_and(|it| it == "FIRE_AND_FORGET");
    let target = || own(&pipe.target).filter(|_| is_asynchronous);
    let (function, how) = match own(&pipe.enrichment) {
        Some(function) => (function, "as its enrichment"),
        None => (target()?, "with FIRE_AND_FORGET"),
    };
    let (pipes, function) = (&pipe.site.id, &function.site.id);
    let message = format!("The pipe {pipes} invokes the function {function} {how}.");
    let remedy = Remedy::Advice(
        "Make the function the pipe's target, with the invocation type REQUEST_RESPONSE.\n\
         Or replace the pipe by an event source mapping.",
    );
    let place = pipe.invocation.place().or(pipe.enrichment.place());
    let place = place.unwrap_or(&pipe.site.place);
    may_read_queue(deployment, pipe).then(|| Problem::at(place, message, remedy))
}

pub(super) fn may_read_queue(deployment: &Deployment, pipe: &Pipe) -> bool {
    match pipe.source.known() {
        Some(Target::Other(arn)) => arn.contains(":sqs:"),
        Some(_) => deployment.queue(&pipe.source).is_some(),
        None => true,
    }
}
