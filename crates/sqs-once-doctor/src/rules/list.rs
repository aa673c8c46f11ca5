//! The list of all rules.

use super::{Rule, Severity, UNREAD, found, unknown};
use super::{
    accounts, alarms, buses, concurrency, dead_letters, delivery, keys, limits, permissions,
    references, senders, settings, table,
};

const LAMBDA_SQS: &str = "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html";
const LAMBDA_PARAMETERS: &str =
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-parameters.html";
const LAMBDA_ERRORS: &str =
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html";
const LAMBDA_SCALING: &str =
    "https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html";
const SQS_DLQ: &str = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html";
const SQS_VISIBILITY: &str = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html";
const SQS_METRICS: &str = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html";
const SQS_KEYS: &str = "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html";
const BUS_RETRIES: &str =
    "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-retry.html";
const DYNAMODB_TTL: &str =
    "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/TTL.html";
const GLOBAL_TABLES: &str = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/V2globaltables_HowItWorks.html";
const IAM: &str = "https://docs.aws.amazon.com/lambda/latest/dg/lambda-intro-execution-role.html";
const LAMBDA_TIMEOUT: &str =
    "https://docs.aws.amazon.com/lambda/latest/dg/configuration-timeout.html";

/// All rules.
pub static RULES: &[Rule] = &[
    Rule {
        id: "visibility-timeout-below-function-timeout",
        severity: Severity::Error,
        title: "The visibility timeout is shorter than the function's timeout",
        why: "A message can return while its first delivery still runs. Lambda refuses to create such a mapping.",
        url: LAMBDA_SQS,
        check: |all| found(all.sources(), |it| delivery::visibility(it, true)),
    },
    Rule {
        id: "visibility-timeout-too-short",
        severity: Severity::Warning,
        title: "The visibility timeout is shorter than six times the function's timeout plus the batching window",
        why: "Lambda needs that time to retry a throttled batch. With less, messages return during the retries, and each receive counts towards the dead-letter queue.",
        url: LAMBDA_SQS,
        check: |all| found(all.sources(), |it| delivery::visibility(it, false)),
    },
    Rule {
        id: "partial-batch-response-missing",
        severity: Severity::Error,
        title: "The mapping lacks ReportBatchItemFailures",
        why: "Lambda ignores which messages failed. It deletes them with the good ones, or delivers the good ones again.",
        url: LAMBDA_ERRORS,
        check: |all| found(all.consumers(), delivery::partial_response_missing),
    },
    Rule {
        id: "value-refused",
        severity: Severity::Error,
        title: "A setting has a value that AWS refuses",
        why: "The deployment fails, because AWS does not create such a function, queue or mapping.",
        url: LAMBDA_PARAMETERS,
        check: limits::refused,
    },
    Rule {
        id: "reference-wrong",
        severity: Severity::Error,
        title: "A reference is of the wrong kind",
        why: "AWS refuses an ARN, a URL or a name in the place of another. An alarm with it watches nothing.",
        url: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-sqs-queue.html",
        check: |all| found(all.references.iter(), |it| references::wrong(all, it)),
    },
    Rule {
        id: "fifo-throughput-without-scope",
        severity: Severity::Error,
        title: "FifoThroughputLimit is perMessageGroupId, and DeduplicationScope is not messageGroup",
        why: "SQS refuses such a queue.",
        url: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html",
        check: |all| found(all.consumed_and_dead_letters(), delivery::throughput_limit),
    },
    Rule {
        id: "filter-deletes-messages",
        severity: Severity::Note,
        title: "The mapping has FilterCriteria",
        why: "Lambda deletes a message that matches no filter. Neither the function nor the dead-letter queue gets it.",
        url: "https://docs.aws.amazon.com/lambda/latest/dg/invocation-eventfiltering.html#filtering-criteria-not-met",
        check: |all| found(all.consumers(), delivery::filter),
    },
    Rule {
        id: "expires-before-dead-letter-queue",
        severity: Severity::Error,
        title: "Messages expire before they reach the dead-letter queue",
        why: "SQS deletes a failing message at the end of its retention, before it was received often enough to be moved.",
        url: SQS_DLQ,
        check: |all| found(all.consumed(), dead_letters::expires_before),
    },
    Rule {
        id: "dead-letter-queue-missing",
        severity: Severity::Error,
        title: "The queue has no dead-letter queue",
        why: "A message that always fails is delivered until its retention ends, and is then deleted without a trace.",
        url: SQS_DLQ,
        check: |all| found(all.sources(), |it| dead_letters::missing(all, it)),
    },
    Rule {
        id: "max-receive-count-too-low",
        severity: Severity::Warning,
        title: "maxReceiveCount is below 3",
        why: "Throttled and interrupted deliveries count as receives, so good messages end in the dead-letter queue.",
        url: LAMBDA_SQS,
        check: |all| found(all.consumed(), dead_letters::max_receive_count),
    },
    Rule {
        id: "fifo-receives-too-few",
        severity: Severity::Warning,
        title: "maxReceiveCount of a FIFO queue is below twice the batch size",
        why: "The messages of a group that follow a failed one return untried, and each return is a receive. With few receives, good messages end in the dead-letter queue without one attempt.",
        url: LAMBDA_ERRORS,
        check: |all| found(all.consumers(), limits::fifo_receives),
    },
    Rule {
        id: "outage-buries-messages",
        severity: Severity::Note,
        title: "A dependency's outage of a day buries messages, even with a breaker",
        why: "A breaker hides a message for up to 11 h 44 min between two receives. With few receives, or a short retention, good messages end in the dead-letter queue or expire before the dependency is back.",
        url: SQS_VISIBILITY,
        check: |all| found(all.sources(), dead_letters::outage),
    },
    Rule {
        id: "dead-letter-retention-too-short",
        severity: Severity::Error,
        title: "The dead-letter queue keeps messages no longer than the source queue",
        why: "A standard queue's message keeps its age when SQS moves it. SQS may delete it hours after it arrived, or at once.",
        url: SQS_DLQ,
        check: |all| found(all.redrives(), dead_letters::retention),
    },
    Rule {
        id: "dead-letter-queue-of-other-type",
        severity: Severity::Error,
        title: "The dead-letter queue is FIFO and its source is not, or the reverse",
        why: "SQS refuses it: a dead-letter queue must have the type of its source.",
        url: SQS_DLQ,
        check: |all| found(all.redrives(), dead_letters::other_type),
    },
    Rule {
        id: "dead-letter-queue-elsewhere",
        severity: Severity::Error,
        title: "The dead-letter queue is in another account or Region",
        why: "A dead-letter queue must be in the account and the Region of its source.",
        url: "https://docs.aws.amazon.com/sdk-for-java/v1/developer-guide/examples-sqs-dead-letter-queues.html",
        check: |all| found(all.sources(), |it| accounts::dead_letters(all, it)),
    },
    Rule {
        id: "dead-letter-url-wrong",
        severity: Severity::Error,
        title: "SQS_ONCE_DLQ_URL is not the URL of a dead-letter queue",
        why: "The function sends terminal messages there. If it is their source queue, they return forever. An ARN or a name is not a URL.",
        url: SQS_DLQ,
        check: |all| found(all.consumers(), |it| dead_letters::url(all, it)),
    },
    Rule {
        id: "dead-letter-alarm-missing",
        severity: Severity::Warning,
        title: "No alarm watches the dead-letter queue",
        why: "SQS deletes dead letters at the end of their retention, and no alarm reports them before.",
        url: SQS_METRICS,
        check: |all| found(all.dead_letter_queues(), |it| alarms::missing(all, it)),
    },
    Rule {
        id: "dead-letter-alarm-wrong-metric",
        severity: Severity::Error,
        title: "The dead-letter queue's alarm watches a metric that does not count moved messages",
        why: "SQS does not count the messages that it moves to a dead-letter queue in NumberOfMessagesSent, so the alarm stays silent.",
        url: SQS_METRICS,
        check: |all| found(all.dead_letter_queues(), |it| alarms::wrong_metric(all, it)),
    },
    Rule {
        id: "dead-letter-alarm-too-late",
        severity: Severity::Error,
        title: "The dead-letter queue's alarm does not ring at the first dead letter",
        why: "Until it rings, nobody learns of the messages, and SQS deletes them at the end of their retention.",
        url: SQS_METRICS,
        check: |all| found(all.dead_letter_queues(), |it| alarms::too_late(all, it)),
    },
    Rule {
        id: "reserved-concurrency-without-maximum",
        severity: Severity::Warning,
        title: "Reserved concurrency without MaximumConcurrency",
        why: "Lambda's pollers receive more messages than the function may run. Throttled messages count as received, and good ones end in the dead-letter queue.",
        url: LAMBDA_SCALING,
        check: |all| found(all.consumers(), |it| concurrency::maximum(all, it, true)),
    },
    Rule {
        id: "maximum-concurrency-above-reserved",
        severity: Severity::Warning,
        title: "MaximumConcurrency is above the reserved concurrency",
        why: "Lambda throttles the difference. Throttled messages count as received, and good ones end in the dead-letter queue.",
        url: LAMBDA_SCALING,
        check: |all| found(all.consumers(), |it| concurrency::maximum(all, it, false)),
    },
    Rule {
        id: "provisioned-with-maximum-concurrency",
        severity: Severity::Error,
        title: "A mapping has both MaximumConcurrency and ProvisionedPollerConfig",
        why: "Lambda refuses such a mapping: the two exclude each other.",
        url: LAMBDA_SCALING,
        check: |all| found(all.consumers(), concurrency::provisioned_with_maximum),
    },
    Rule {
        id: "poller-minimum-above-maximum",
        severity: Severity::Error,
        title: "MinimumPollers is above MaximumPollers",
        why: "Lambda scales the pollers between the two numbers, and there is none.",
        url: LAMBDA_SCALING,
        check: |all| found(all.consumers(), concurrency::minimum_above_maximum),
    },
    Rule {
        id: "pollers-above-reserved",
        severity: Severity::Warning,
        title: "The provisioned pollers may run more than the reserved concurrency",
        why: "A poller runs up to 10 invocations at once, and Lambda throttles what is above the reservation. Throttled messages count as received, and good ones end in the dead-letter queue.",
        url: LAMBDA_SCALING,
        check: |all| {
            found(all.consumers(), |it| {
                concurrency::pollers_above_reserved(all, it)
            })
        },
    },
    Rule {
        id: "deduplication-retention-too-short",
        severity: Severity::Error,
        title: "Keys are forgotten while their messages may still return",
        why: "If a message spends its time in both queues and is then redriven, the completion of its key has expired, and its effect is repeated.",
        url: SQS_DLQ,
        check: |all| found(all.consumers(), |it| settings::retention(all, it)),
    },
    Rule {
        id: "deduplication-disabled",
        severity: Severity::Error,
        title: "SQS_ONCE_DISABLED is set",
        why: "Every duplicate has its effect again.",
        url: LAMBDA_ERRORS,
        check: |all| found(all.consuming_functions(), settings::disabled),
    },
    Rule {
        id: "variable-unknown",
        severity: Severity::Error,
        title: "A variable with the prefix SQS_ONCE_ has no meaning",
        why: "The function ignores it, and the setting that it was meant for has its default.",
        url: "https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html",
        check: |all| found(all.variables(), settings::unknown),
    },
    Rule {
        id: "function-timeout-missing",
        severity: Severity::Warning,
        title: "The function has the default timeout of 3 s",
        why: "Three seconds cover a whole batch. The consumer cancels handlers that take longer, and their messages return.",
        url: LAMBDA_TIMEOUT,
        check: |all| found(all.consuming_functions(), settings::timeout_missing),
    },
    Rule {
        id: "deadline-margin-too-long",
        severity: Severity::Error,
        title: "The deadline margin leaves no time to work",
        why: "No message starts within the margin before the deadline, so every message fails.",
        url: LAMBDA_TIMEOUT,
        check: |all| found(all.consuming_functions(), settings::deadline_margin),
    },
    Rule {
        id: "password-in-environment",
        severity: Severity::Warning,
        title: "A database's password is in the function's environment",
        why: "Everyone who may read the function's configuration can read it. It also stays in templates, deployments and their history.",
        url: "https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html",
        check: |all| found(all.variables(), settings::password),
    },
    Rule {
        id: "ttl-missing",
        severity: Severity::Warning,
        title: "The idempotency table has no TTL",
        why: "DynamoDB never deletes expired keys, and you pay for their storage.",
        url: DYNAMODB_TTL,
        check: |all| found(all.key_tables(), table::ttl_missing),
    },
    Rule {
        id: "ttl-attribute-wrong",
        severity: Severity::Error,
        title: "The idempotency table's TTL attribute is not the one that is written",
        why: "The library writes the time at which an item expires into `expiration`. With another attribute, DynamoDB deletes no items, or deletes them at a wrong time.",
        url: DYNAMODB_TTL,
        check: |all| found(all.key_tables(), table::ttl_attribute),
    },
    Rule {
        id: "global-table-with-ttl",
        severity: Severity::Error,
        title: "A global table with multi-Region strong consistency has TTL",
        why: "DynamoDB supports no TTL on such a table.",
        url: GLOBAL_TABLES,
        check: |all| found(all.key_tables(), |it| table::strongly_consistent(it, true)),
    },
    Rule {
        id: "global-table-strongly-consistent",
        severity: Severity::Note,
        title: "The idempotency table is a global table with multi-Region strong consistency",
        why: "DynamoDB supports neither TTL nor transactions on it. Expired keys cost storage, and handlers that return writes fail.",
        url: GLOBAL_TABLES,
        check: |all| found(all.key_tables(), |it| table::strongly_consistent(it, false)),
    },
    Rule {
        id: "table-not-protected",
        severity: Severity::Warning,
        title: "The idempotency table has no deletion protection",
        why: "If someone deletes the table by mistake, all completions are lost, and every message that returns has its effect again.",
        url: "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/WorkingWithTables.Basics.html",
        check: |all| found(all.key_tables(), table::unprotected),
    },
    Rule {
        id: "permission-missing",
        severity: Severity::Error,
        title: "The function's role lacks an action",
        why: "AWS refuses what Lambda or the function does with it, so messages stay in the queue, return, or end in the dead-letter queue.",
        url: IAM,
        check: permissions::missing,
    },
    Rule {
        id: "table-not-granted",
        severity: Severity::Note,
        title: "The function's role may not use a table in its environment",
        why: "DynamoDB refuses the function's requests to a table of its own, unless another policy allows them.",
        url: IAM,
        check: permissions::own_tables,
    },
    Rule {
        id: "bucket-permission-missing",
        severity: Severity::Error,
        title: "The function's role may not read the bodies of large messages",
        why: "S3 refuses them, so messages with a pointer return to the queue until they end in the dead-letter queue.",
        url: IAM,
        check: |all| found(all.consuming_functions(), permissions::bodies),
    },
    Rule {
        id: "key-permission-missing",
        severity: Severity::Error,
        title: "The function's role may not use the key of a queue or the table",
        why: "KMS refuses it. Then Lambda can't receive messages, or every request to the dead-letter queue or the table fails.",
        url: SQS_KEYS,
        check: keys::permission_missing,
    },
    Rule {
        id: "key-policy-decides",
        severity: Severity::Note,
        title: "Only the policy of a key elsewhere can allow its use",
        why: "The doctor can't read that policy. If it does not admit the role, KMS refuses the key's use.",
        url: SQS_KEYS,
        check: keys::elsewhere,
    },
    Rule {
        id: "queue-in-other-account",
        severity: Severity::Note,
        title: "The function consumes a queue of another account",
        why: "Lambda polls such a queue only if the queue's own policy allows the function's role too.",
        url: "https://docs.aws.amazon.com/lambda/latest/dg/with-sqs-cross-account-example.html",
        check: |all| found(all.consumers(), accounts::other_account),
    },
    Rule {
        id: "permission-wildcard",
        severity: Severity::Warning,
        title: "The function's role allows more than it needs",
        why: "An attacker in the function, or a mistake in it, can delete keys and messages of every queue and table that the wildcard matches.",
        url: IAM,
        check: |all| found(all.statements(), permissions::wildcard),
    },
    Rule {
        id: "queue-not-encrypted",
        severity: Severity::Warning,
        title: "The queue's encryption is switched off",
        why: "SQS stores message bodies unencrypted. Its own encryption costs nothing and needs no permission.",
        url: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-server-side-encryption.html",
        check: |all| found(all.consumed_and_dead_letters(), delivery::not_encrypted),
    },
    Rule {
        id: "queue-accepts-plain-http",
        severity: Severity::Note,
        title: "The queue's policy does not deny requests without TLS",
        why: "Without such a policy, SQS also answers over plain HTTP, and anyone on the network's path can read the message.",
        url: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-security-best-practices.html",
        check: |all| {
            found(all.consumed_and_dead_letters(), |it| {
                delivery::plain_http(all, it)
            })
        },
    },
    Rule {
        id: "key-shuts-senders-out",
        severity: Severity::Error,
        title: "A service can't send to a queue, because the queue's key shuts it out",
        why: "KMS refuses the key to a service that its policy does not admit, and messages that the service can't deliver are lost. You can't change the policy of alias/aws/sqs.",
        url: SQS_KEYS,
        check: |all| found(all.senders.iter(), |it| senders::shut_out(all, it)),
    },
    Rule {
        id: "sender-not-allowed",
        severity: Severity::Error,
        title: "A service can't send to a queue, because no policy of the queue allows it",
        why: "SQS refuses the messages of SNS, S3 and EventBridge without such a policy, and they are lost.",
        url: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-basic-examples-of-sqs-policies.html",
        check: |all| found(all.senders.iter(), |it| senders::not_allowed(all, it)),
    },
    Rule {
        id: "pipe-deletes-failures",
        severity: Severity::Error,
        title: "A pipe deletes the messages that the function reports as failed",
        why: "Pipes reads batch item failures only from a target that it invokes with REQUEST_RESPONSE. It deletes the failed messages with the good ones.",
        url: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-pipes-batching-concurrency.html",
        check: |all| found(all.pipes.iter(), |it| senders::pipe(all, it)),
    },
    Rule {
        id: "bus-failures-dropped",
        severity: Severity::Error,
        title: "A subscriber of an event bus drops the events that it can't deliver",
        why: "After 5 attempts or 300 seconds, if nothing else is set, the bus drops an event. A wrong role or key for five minutes loses events.",
        url: BUS_RETRIES,
        check: |all| {
            found(all.subscribers.iter(), |it| {
                buses::failures_dropped(all, it)
            })
        },
    },
    Rule {
        id: "bus-failures-in-a-consumers-queue",
        severity: Severity::Error,
        title: "A subscriber of an event bus puts its failures into a queue of the consumer",
        why: "What it puts there is a report and not the event. The consumer can't decode it, and a redrive brings no event back.",
        url: BUS_RETRIES,
        check: |all| {
            found(all.subscribers.iter(), |it| {
                buses::failures_in_a_consumers_queue(all, it)
            })
        },
    },
    Rule {
        id: "bus-deduplication-constant",
        severity: Severity::Error,
        title: "A subscriber of an event bus gives all messages one deduplication id",
        why: "A FIFO queue discards every message after the first with the id, for five minutes.",
        url: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-target-sqs.html",
        check: |all| {
            found(all.subscribers.iter(), |it| {
                buses::constant_deduplication(all, it)
            })
        },
    },
    Rule {
        id: "bus-order-lost",
        severity: Severity::Warning,
        title: "A FIFO subscriber of an event bus sends to a standard queue",
        why: "The queue does not keep the order that the subscriber waits for.",
        url: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-ordering.html",
        check: |all| found(all.subscribers.iter(), |it| buses::order_lost(all, it)),
    },
    Rule {
        id: "bus-replay-outlives-keys",
        severity: Severity::Warning,
        title: "Keys are forgotten while an event bus can still replay their events",
        why: "A new subscriber may start at any event that the bus keeps. An event whose key is forgotten has its effect again.",
        url: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-replay.html",
        check: |all| found(all.consumers(), |it| buses::replay_outlives_keys(all, it)),
    },
    Rule {
        id: "bus-permission-missing",
        severity: Severity::Error,
        title: "The role of an event bus's subscriber lacks an action",
        why: "The subscriber sends with its role. What SQS or KMS refuses is retried for five minutes if nothing else is set, and is then a failure or lost.",
        url: "https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-custom-bus-target-sqs.html",
        check: buses::permission_missing,
    },
    Rule {
        id: "bus-subscriber-replaced",
        severity: Severity::Note,
        title: "A Terraform plan replaces a subscriber of an event bus",
        why: "Events between the end of the old subscriber and the start of the new one are not delivered.",
        url: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-eventsv2-subscriber.html",
        check: |all| found(all.subscribers.iter(), |it| buses::replaced(all, it)),
    },
    Rule {
        id: "durable-failures-unseen",
        severity: Severity::Note,
        title: "A durable function has no dead-letter queue of its own",
        why: "The message that starts an execution is done then. The events of executions that fail go to the durable function's own queue, or nowhere.",
        url: "https://docs.aws.amazon.com/lambda/latest/dg/durable-best-practices.html",
        check: |all| found(all.functions.iter(), dead_letters::durable_failures_unseen),
    },
    Rule {
        id: UNREAD,
        severity: Severity::Note,
        title: "The doctor can't read a part of the deployment",
        why: "Only the deployment knows this part, so mistakes in it are not found.",
        url: "https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/transform-aws-languageextensions.html",
        check: unknown::unread,
    },
    Rule {
        id: "panic-abort",
        severity: Severity::Error,
        title: "A build profile sets panic = \"abort\"",
        why: "One panic ends the process and its whole batch, and SQS delivers the good messages again.",
        url: "https://doc.rust-lang.org/cargo/reference/profiles.html#panic",
        check: settings::panic_abort,
    },
];
