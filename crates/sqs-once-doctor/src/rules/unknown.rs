//! What the doctor lacks to judge a deployment.

use super::{Problem, alarms, permissions};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::model::{Deployment, Format, Function, Queue, Site, Table, Unread, literal};
use crate::remedy::Remedy;

/// Settings, and whether the doctor lacks them.
type Settings = Vec<(&'static str, bool)>;

/// Finds the values that rules need and only the deployment knows.
fn values(all: &Deployment) -> Vec<Problem> {
    let mut sites: Vec<(&Site, Settings)> = Vec::new();
    for consumer in all.consumers() {
        sites.push((&consumer.mapping.site, of_mapping(&consumer)));
        if let Some(function) = consumer.function {
            let is_skipped = permissions::is_skipped(all, &consumer, function);
            sites.push((&function.site, vec![("The role", is_skipped)]));
        }
    }
    let functions = all.consuming_functions();
    sites.extend(functions.map(|it| (&it.site, of_function(all, it))));
    let queues = all.consumed_and_dead_letters();
    sites.extend(queues.map(|it| (&it.site, of_queue(all, it))));
    for queue in all.dead_letter_queues() {
        let may_be = alarms::may_be_watched(all, queue);
        sites.push((&queue.site, vec![("The alarm", may_be)]));
    }
    sites.extend(all.key_tables().map(|it| (&it.site, of_table(it))));
    let advice = match all.format {
        Format::Terraform => EXAMINE_PLAN,
        _ => {
            "Check it by hand. If it is a parameter, give it a default.\n\
             Or accept it: --allow part-not-examined"
        }
    };
    let problem = |(site, name): (&Site, &str)| {
        let message = format!(
            "{name} of {} was not examined, because it is elsewhere or only the deployment knows it.",
            site.id
        );
        Problem::at(&site.place, message, Remedy::Advice(advice))
    };
    let lacking = sites.iter().flat_map(|(site, settings)| {
        let lacking = settings.iter().filter(|(_, is_lacking)| *is_lacking);
        lacking.map(|(name, _)| (*site, *name))
    });
    lacking.map(problem).collect()
}

fn of_mapping(consumer: &Consumer<'_>) -> Settings {
    let mapping = consumer.mapping;
    let (failures, window) = (&mapping.reports_failures, &mapping.window);
    vec![
        ("EventSourceArn", consumer.queue.is_none()),
        ("FunctionName", consumer.function.is_none()),
        ("FunctionResponseTypes", failures.is_unknown()),
        ("BatchSize", mapping.batch_size.is_unknown()),
        ("MaximumBatchingWindowInSeconds", window.is_unknown()),
        ("ScalingConfig", mapping.maximum_concurrency.is_unknown()),
        ("ProvisionedPollerConfig", mapping.pollers.is_unknown()),
    ]
}

fn of_function(all: &Deployment, function: &Function) -> Settings {
    let reserved = &function.reserved_concurrency;
    let has = |name| function.environment.contains_key(name);
    let is_judged = |name| match function.variable(name) {
        Field::Known(text, _) => literal(text).is_some(),
        field => field.is_missing(),
    };
    let has_table = all.table(function.reference("SQS_ONCE_TABLE")).is_some();
    let has_queue = all.queue(function.reference("SQS_ONCE_DLQ_URL")).is_some();
    let mut settings = vec![
        ("Timeout", function.timeout.is_unknown()),
        ("ReservedConcurrentExecutions", reserved.is_unknown()),
        ("SQS_ONCE_TABLE", has("SQS_ONCE_TABLE") && !has_table),
        ("SQS_ONCE_DLQ_URL", has("SQS_ONCE_DLQ_URL") && !has_queue),
    ];
    for name in [
        "SQS_ONCE_RETENTION",
        "SQS_ONCE_DISABLED",
        "SQS_ONCE_DEADLINE_MARGIN",
    ] {
        settings.push((name, !is_judged(name)));
    }
    settings
}

fn of_queue(all: &Deployment, queue: &Queue) -> Settings {
    let id = &queue.site.id;
    let target = &queue.dead_letter_queue;
    let is_target_unknown = !target.is_missing() && all.queue(target).is_none();
    let by_sqs = &queue.is_encrypted_by_sqs;
    let is_key_unknown = queue.kms_key.is_unknown() && queue.key.is_unknown();
    let mut senders = all.senders.iter();
    let is_sent_to = senders.any(|it| it.queue.known().is_some_and(|queue| queue.is(id)));
    let is_policy_unknown = is_sent_to && queue.denies_plain_http.is_unknown();
    vec![
        ("deadLetterTargetArn", is_target_unknown),
        ("maxReceiveCount", queue.max_receive_count.is_unknown()),
        ("VisibilityTimeout", queue.visibility_timeout.is_unknown()),
        ("FifoQueue", queue.is_fifo.is_unknown()),
        ("MessageRetentionPeriod", queue.retention.is_unknown()),
        ("DelaySeconds", queue.delay.is_unknown()),
        ("KmsMasterKeyId", is_key_unknown),
        ("SqsManagedSseEnabled", by_sqs.is_unknown()),
        ("The policy", is_policy_unknown),
    ]
}

fn of_table(table: &Table) -> Settings {
    let is_ttl_unknown = table.ttl_attribute.is_unknown() || table.ttl_is_enabled.is_unknown();
    vec![
        ("KeySchema", table.partition_key.is_unknown()),
        ("TimeToLiveSpecification", is_ttl_unknown),
        ("DeletionProtectionEnabled", table.is_protected.is_unknown()),
    ]
}

const EXAMINE_PLAN: &str = "Examine the plan:\n\
     terraform plan -out plan && terraform show -json plan > plan.json\n\
     cargo sqs-once doctor plan.json";

pub(super) fn unread(deployment: &Deployment) -> Vec<Problem> {
    let advice = match deployment.format {
        Format::Template | Format::CdkTemplate => {
            "Examine what AWS makes of it:\n\
             aws cloudformation get-template --template-stage Processed --query TemplateBody --output json \\\n  \
             --stack-name … > processed.json\n\
             cargo sqs-once doctor processed.json"
        }
        Format::Terraform => EXAMINE_PLAN,
    };
    let problem = |part: &Unread| {
        let message = format!("{} was not examined.", part.name);
        Problem::at(&part.place, message, Remedy::Advice(advice))
    };
    let parts = deployment.unread.iter().map(problem);
    parts.chain(values(deployment)).collect()
}
