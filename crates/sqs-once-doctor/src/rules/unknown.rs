//! What the doctor lacks to judge a deployment.

use super::{Problem, RULES, alarms, senders};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::iam::EVENT_BRIDGE;
use crate::model::{
    Bus, Deployment, Format, Function, Key, Permissions, Pipe, Queue, Sender, Site, Subscriber,
    Table, Target, Unread, literal,
};
use crate::remedy::Remedy;

/// Settings, and whether the doctor lacks them.
type Settings = Vec<(&'static str, bool)>;

/// Finds the values that rules need and only the deployment knows.
fn values(all: &Deployment) -> Vec<Problem> {
    let mut sites: Vec<(&Site, Settings)> = Vec::new();
    for consumer in all.consumers() {
        sites.push((&consumer.mapping.site, of_mapping(&consumer)));
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
    sites.extend(all.keys.iter().map(|it| (&it.site, of_key(all, it))));
    sites.extend(all.senders.iter().map(|it| (&it.site, of_sender(it))));
    sites.extend(
        all.subscribers
            .iter()
            .map(|it| (&it.site, of_subscriber(all, it))),
    );
    let retention = |it: &Bus| vec![("RetentionPeriodInDays", it.retention_days.is_unknown())];
    sites.extend(all.buses.iter().map(|it| (&it.site, retention(it))));
    sites.extend(all.pipes.iter().map(|it| (&it.site, of_pipe(all, it))));
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
    let pollers = mapping.pollers.known();
    let are_pollers_unknown =
        mapping.pollers.is_unknown() || pollers.is_some_and(|it| it.range().is_none());
    vec![
        ("EventSourceArn", consumer.queue.is_none()),
        ("FunctionName", consumer.function.is_none()),
        ("FunctionResponseTypes", failures.is_unknown()),
        ("BatchSize", mapping.batch_size.is_unknown()),
        ("MaximumBatchingWindowInSeconds", window.is_unknown()),
        ("ScalingConfig", mapping.maximum_concurrency.is_unknown()),
        ("ProvisionedPollerConfig", are_pollers_unknown),
        ("FilterCriteria", mapping.filter.is_unknown()),
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
        (
            "CapacityProviderConfig",
            function.capacity_provider.is_unknown(),
        ),
        ("DurableConfig", function.durable.is_unknown()),
        ("Environment", function.has_more_variables),
        (
            "The role",
            is_role_unknown(all, &function.site, &function.permissions),
        ),
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

/// Whether the rules on permissions find more if the role of a function or a subscriber has only those that are known.
fn is_role_unknown(all: &Deployment, site: &Site, permissions: &Permissions) -> bool {
    let known = permissions.known();
    if known == *permissions {
        return false;
    }
    let mut less = all.clone();
    let functions = less.functions.iter_mut();
    let functions = functions.map(|it| (&it.site, &mut it.permissions));
    let subscribers = less.subscribers.iter_mut();
    let subscribers = subscribers.map(|it| (&it.site, &mut it.permissions));
    for (_, permissions) in functions.chain(subscribers).filter(|(it, _)| *it == site) {
        permissions.clone_from(&known);
    }
    let mut rules = RULES.iter().filter(|rule| OF_ROLES.contains(&rule.id));
    rules.any(|rule| (rule.check)(&less).len() > (rule.check)(all).len())
}

const OF_ROLES: [&str; 6] = [
    "permission-missing",
    "table-not-granted",
    "bucket-permission-missing",
    "key-permission-missing",
    "key-policy-decides",
    "bus-permission-missing",
];

fn of_queue(all: &Deployment, queue: &Queue) -> Settings {
    let id = &queue.site.id;
    let target = &queue.dead_letter_queue;
    let is_target_unknown = !target.is_missing() && all.queue(target).is_none();
    let by_sqs = &queue.is_encrypted_by_sqs;
    let is_key_unknown = queue.kms_key.is_unknown() && queue.key.is_unknown();
    let sends = |it: &&Sender| it.queue.known().is_some_and(|queue| queue.is(id));
    let mut senders = all.senders.iter().filter(sends);
    let is_policy_unknown = queue.denies_plain_http.is_unknown()
        || senders.any(|it| queue.admits.is_unknown(it.service));
    vec![
        ("deadLetterTargetArn", is_target_unknown),
        ("maxReceiveCount", queue.max_receive_count.is_unknown()),
        ("VisibilityTimeout", queue.visibility_timeout.is_unknown()),
        ("FifoQueue", queue.is_fifo.is_unknown()),
        ("MessageRetentionPeriod", queue.retention.is_unknown()),
        ("DelaySeconds", queue.delay.is_unknown()),
        ("FifoThroughputLimit", queue.throughput_limit.is_unknown()),
        ("DeduplicationScope", queue.deduplication_scope.is_unknown()),
        ("KmsMasterKeyId", is_key_unknown),
        ("SqsManagedSseEnabled", by_sqs.is_unknown()),
        ("The policy", is_policy_unknown),
    ]
}

fn of_table(table: &Table) -> Settings {
    let is_ttl_unknown = table.ttl_attribute.is_unknown() || table.ttl_is_enabled.is_unknown();
    let is_key_unknown = table.partition_key.is_unknown() || table.sort_key.is_unknown();
    let consistency = &table.is_strongly_consistent;
    vec![
        ("KeySchema", is_key_unknown),
        ("TimeToLiveSpecification", is_ttl_unknown),
        ("MultiRegionConsistency", consistency.is_unknown()),
        ("SSESpecification", table.key.is_unknown()),
        ("DeletionProtectionEnabled", table.is_protected.is_unknown()),
    ]
}

/// The policy of a key matters to the roles that use the key, and to the services that send to its queues.
fn of_key(all: &Deployment, key: &Key) -> Settings {
    let is_of = |of: &Field<Target>| of.known().is_some_and(|it| it.is(&key.site.id));
    let is_used = all.consumed_and_dead_letters().any(|it| is_of(&it.key))
        || all.key_tables().any(|it| is_of(&it.key));
    let shuts_out = |it: &Sender| {
        let queue = all.queue(&it.queue);
        queue.is_some_and(|queue| is_of(&queue.key)) && key.admits.is_unknown(it.service)
    };
    let is_unknown = is_used && key.delegates.is_none() || all.senders.iter().any(shuts_out);
    vec![("KeyPolicy", is_unknown)]
}

fn of_sender(sender: &Sender) -> Settings {
    // A rule's target may be anything.
    let may_be_queue = sender.service != EVENT_BRIDGE;
    vec![("The queue", may_be_queue && sender.queue.is_unknown())]
}

fn of_subscriber(all: &Deployment, it: &Subscriber) -> Settings {
    let sends = all.queue(&it.target).is_some();
    let is_bus_elsewhere = !it.bus.is_missing() && all.bus(&it.bus).is_none();
    let is_role_unknown = is_role_unknown(all, &it.site, &it.permissions);
    vec![
        ("TargetArn", it.target.is_unknown()),
        ("EventBusArn", sends && is_bus_elsewhere),
        ("Type", sends && it.order.is_unknown()),
        ("OnFailureConfiguration", sends && it.failures.is_unknown()),
        (
            "MessageDeduplicationId",
            sends && it.deduplication_id.is_unknown(),
        ),
        ("The role", is_role_unknown),
    ]
}

fn of_pipe(all: &Deployment, pipe: &Pipe) -> Settings {
    if !senders::may_read_queue(all, pipe) {
        return Vec::new();
    }
    let target = all.function(&pipe.target);
    let is_own = target.is_some_and(Function::uses_sqs_once);
    vec![
        ("Enrichment", pipe.enrichment.is_unknown()),
        ("Target", pipe.target.is_unknown()),
        ("InvocationType", is_own && pipe.invocation.is_unknown()),
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
