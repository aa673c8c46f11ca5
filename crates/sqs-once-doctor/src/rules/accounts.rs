//! Queues in other accounts and Regions.

use super::Problem;
use crate::consumers::Consumer;
use crate::field::Field;
use crate::model::{Deployment, Function, Queue, Target, segments};
use crate::remedy::Remedy;

/// The Region and the account of an ARN, as far as it names them. Either may be a reference, such as `${AWS::Region}`.
fn home(arn: &str) -> Option<(Option<&str>, &str)> {
    let ["arn", _, _, region, account, ..] = segments(arn, &[':'])[..] else {
        return None;
    };
    let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
    let has_region = !region.is_empty() && !region.contains("${");
    is_account.then_some((has_region.then_some(region), account))
}

/// The account of a function, which is the account of its role.
fn account(function: &Function) -> Option<&str> {
    Some(home(function.role.known()?)?.1)
}

/// A queue elsewhere, by its ARN.
fn elsewhere(target: &Field<Target>) -> Option<&str> {
    match target.known()? {
        Target::Other(arn) => Some(arn),
        _ => None,
    }
}

pub(super) fn other_account(consumer: Consumer<'_>) -> Option<Problem> {
    let (mapping, function) = (consumer.mapping, consumer.function?);
    let arn = elsewhere(&mapping.queue)?;
    let (own, (_, other)) = (account(function)?, home(arn)?);
    let message = format!(
        "The function {} is in the account {own}, and consumes the queue {arn} of another.",
        function.site.id
    );
    let remedy = Remedy::Advice(
        "In the queue's account, allow the function's role by the queue's policy:\n\
         sqs:ReceiveMessage, sqs:DeleteMessage, sqs:GetQueueAttributes\n\
         Then accept it: --allow queue-in-other-account",
    );
    let place = mapping.site.place_of(&mapping.queue);
    (own != other).then(|| Problem::at(place, message, remedy))
}

pub(super) fn dead_letters(
    deployment: &Deployment,
    (queue, consumers): (&Queue, Vec<Consumer<'_>>),
) -> Option<Problem> {
    let target = &queue.dead_letter_queue;
    let arn = match deployment.queue(target) {
        Some(own) => own.arn.known()?,
        None => elsewhere(target)?,
    };
    let (region, account_of_target) = home(arn)?;
    // A template creates its queues and its functions in one account.
    let mut functions = consumers.iter().filter_map(|it| it.function);
    let (own_region, own) = match queue.arn.known() {
        Some(arn) => home(arn)?,
        None => (None, functions.find_map(account)?),
    };
    let has_other_region = own_region
        .zip(region)
        .is_some_and(|(own, other)| own != other);
    let is_elsewhere = account_of_target != own || has_other_region;
    let message = format!(
        "The dead-letter queue of {} is {arn}, and the queue itself is in {}{own}.",
        queue.site.id,
        own_region.map_or_else(String::new, |region| format!("{region} of the account ")),
    );
    let remedy =
        Remedy::Advice("Create a dead-letter queue in the account and the Region of the queue.");
    is_elsewhere.then(|| Problem::at(queue.site.place_of(target), message, remedy))
}
