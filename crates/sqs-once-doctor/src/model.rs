//! The parts of a deployment that the rules examine, independent of the source format.

use crate::field::{Field, Path, Place, below};
use crate::manifest::Manifest;
use std::collections::BTreeMap;
use std::time::Duration;

/// A deployment: functions, queues, tables, and their connections.
#[derive(Debug, Clone, Default)]
pub struct Deployment {
    /// The source format.
    pub format: Format,
    /// Lambda functions.
    pub functions: Vec<Function>,
    /// Event source mappings.
    pub mappings: Vec<Mapping>,
    /// SQS queues.
    pub queues: Vec<Queue>,
    /// DynamoDB tables.
    pub tables: Vec<Table>,
    /// KMS keys.
    pub keys: Vec<Key>,
    /// CloudWatch alarms.
    pub alarms: Vec<Alarm>,
    /// AWS services that send to queues.
    pub senders: Vec<Sender>,
    /// Pipes of EventBridge.
    pub pipes: Vec<Pipe>,
    /// EventBridge's custom event buses.
    pub buses: Vec<Bus>,
    /// Their subscribers.
    pub subscribers: Vec<Subscriber>,
    /// References to queues that need an ARN, a URL or a name.
    pub references: Vec<Reference>,
    /// What holds in this case of the source's conditions, by condition.
    pub case: BTreeMap<String, bool>,
    /// The build profiles of the functions' code.
    pub manifests: Vec<Manifest>,
    /// Whether other resources may exist that the source does not show, for example nested stacks and macros.
    pub has_more: bool,
    /// The parts of the source that the doctor can't read.
    pub unread: Vec<Unread>,
    /// The paths of the CDK constructs that make the resources, by `Site::id`.
    pub constructs: BTreeMap<String, String>,
}

/// A part of the source that the doctor can't read, because AWS computes it.
#[derive(Debug, Clone)]
pub struct Unread {
    /// Where it is.
    pub place: Place,
    /// Its name, for example `Fn::ForEach::Queues`.
    pub name: String,
}

/// The format of a deployment's source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// A SAM or CloudFormation template.
    #[default]
    Template,
    /// A CloudFormation template that CDK synthesised.
    CdkTemplate,
    /// A Terraform configuration, or a plan in the JSON of `terraform show -json`.
    Terraform,
}

/// A resource's name and position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The name that other resources refer to.
    pub id: String,
    /// The start of the resource.
    pub place: Place,
    /// The path to its properties.
    pub(crate) properties: Path,
    /// The condition without which it does not exist.
    pub(crate) condition: Option<String>,
}

impl Site {
    /// The place of a value of the resource, or else of the resource.
    pub(crate) fn place_of<'a, T>(&'a self, field: &'a Field<T>) -> &'a Place {
        field.place().unwrap_or(&self.place)
    }

    /// The path of a value of the resource, or else of the property that would have it.
    pub(crate) fn path_of<T>(&self, field: &Field<T>, property: &[&str]) -> Path {
        let own = field.place().filter(|place| !place.path.is_empty());
        own.map_or_else(|| below(&self.properties, property), |it| it.path.clone())
    }
}

/// What a text says of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// Its ARN.
    Arn,
    /// A queue's URL.
    Url,
    /// Its name, or its ID.
    Name,
}

impl Form {
    /// The form of a text that does not start with a reference.
    pub(crate) fn of(text: &str) -> Option<Self> {
        match text {
            _ if text.starts_with("arn:") => Some(Form::Arn),
            _ if text.starts_with("https://") => Some(Form::Url),
            _ if text.is_empty() || text.contains("${") => None,
            _ => Some(Form::Name),
        }
    }
}

/// A reference to a queue.
#[derive(Debug, Clone)]
pub struct Reference {
    /// The resource that refers to it.
    pub site: Site,
    /// Its text.
    pub value: Field<String>,
    /// What the text has to be.
    pub wanted: Form,
    /// What the text is, if that is known.
    pub found: Option<Form>,
    /// The queue.
    pub target: Field<Target>,
    /// Another resource to which it refers instead, or one that does not exist in this case.
    pub other: Option<String>,
}

/// A pipe of EventBridge.
#[derive(Debug, Clone)]
pub struct Pipe {
    /// Its name and position.
    pub site: Site,
    /// Where its records come from.
    pub source: Field<Target>,
    /// `Enrichment`.
    pub enrichment: Field<Target>,
    /// `Target`.
    pub target: Field<Target>,
    /// `TargetParameters.LambdaFunctionParameters.InvocationType`.
    pub invocation: Field<String>,
}

/// The target of a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A resource of the deployment, by its `Site::id`.
    Own(String),
    /// One of these resources. A queue, a table and a function may share a name.
    OneOf(Vec<String>),
    /// A resource outside the deployment, as written in the source.
    Other(String),
}

impl Target {
    /// `Own` for one ID, `OneOf` for several, `Other(text)` for none.
    pub(crate) fn one_of(mut ids: Vec<String>, text: &str) -> Self {
        match ids.len() {
            0 => Target::Other(text.to_owned()),
            1 => Target::Own(ids.remove(0)),
            _ => Target::OneOf(ids),
        }
    }

    /// Whether this refers to the resource `id`, or may refer to it.
    pub fn is(&self, id: &str) -> bool {
        match self {
            Target::Own(own) => own == id,
            Target::OneOf(several) => several.iter().any(|own| own == id),
            Target::Other(_) => false,
        }
    }
}

/// A Lambda function.
#[derive(Debug, Clone)]
pub struct Function {
    /// Its name and position.
    pub site: Site,
    /// The ARN of its role, or what else names it.
    pub role: Field<String>,
    /// `Timeout`.
    pub timeout: Field<Duration>,
    /// `Runtime`.
    pub runtime: Field<String>,
    /// The folder of its code: SAM's `CodeUri`.
    pub code: Field<String>,
    /// The binary that cargo-lambda builds for it: `Metadata.BuildProperties.Binary`, or Terraform's `filename`.
    pub binary: Field<String>,
    /// `MemorySize`, in MB.
    pub memory_mb: Field<u32>,
    /// Whether it has `CapacityProviderConfig`, and so runs on Lambda Managed Instances.
    pub capacity_provider: Field<()>,
    /// `ReservedConcurrentExecutions`.
    pub reserved_concurrency: Field<u64>,
    /// Its environment variables, in the syntax of `Fn::Sub`: a reference is `${Resource}` or `${Resource.Attribute}`, and
    /// `${!Text}` is the text `${Text}`.
    pub environment: BTreeMap<String, Field<String>>,
    /// The resources that environment variables refer to.
    pub references: BTreeMap<String, Field<Target>>,
    /// Whether it may have other environment variables, which only the deployment knows.
    pub has_more_variables: bool,
    /// Whether it has a dead-letter queue for asynchronous invocations.
    pub has_async_dead_letters: bool,
    /// Whether it has `DurableConfig`, and so is a durable function.
    pub durable: Field<()>,
    /// The permissions of its role.
    pub permissions: Permissions,
}

impl Function {
    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> &Field<String> {
        self.environment.get(name).unwrap_or(&Field::Missing)
    }

    /// The resource that an environment variable refers to.
    pub fn reference(&self, name: &str) -> &Field<Target> {
        self.references.get(name).unwrap_or(&Field::Missing)
    }

    /// The environment variables whose values are known before the deployment.
    pub fn literals(&self) -> impl Iterator<Item = (&str, String)> {
        self.environment.iter().filter_map(|(name, value)| {
            let text = literal(value.known()?)?;
            Some((name.as_str(), text))
        })
    }

    /// Whether the function has a variable `SQS_ONCE_…`, and so uses this library.
    pub fn uses_sqs_once(&self) -> bool {
        self.environment
            .keys()
            .any(|name| name.starts_with("SQS_ONCE_"))
    }
}

/// The text of a value in the syntax of `Fn::Sub`, if it contains no reference.
pub(crate) fn literal(text: &str) -> Option<String> {
    let is_literal = !text.replace("${!", "").contains("${");
    is_literal.then(|| text.replace("${!", "${"))
}

/// The parts of a text between separators. Those inside a reference `${…}` do not count.
pub(crate) fn segments<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let mut depth = 0usize;
    let is_separator = |char| {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && separators.contains(&char)
    };
    text.split(is_separator).collect()
}

/// The permissions of a role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Permissions {
    /// The statements of its policies.
    pub statements: Vec<Statement>,
    /// Whether `statements` is the complete list.
    pub is_complete: bool,
    /// Where the template can take another statement, if anywhere.
    pub(crate) extend: Option<Extend>,
}

/// A list to which a policy statement can be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extend {
    /// A list of statements.
    Statements(Path),
    /// A list of SAM policies, each a statement or a list of statements.
    SamPolicies(Path),
}

/// A policy statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Its position.
    pub place: Place,
    /// Whether its effect is `Allow`.
    pub allows: bool,
    /// Patterns of actions.
    pub actions: Vec<String>,
    /// The resources that the statement covers.
    pub resources: Vec<Scope>,
}

/// A resource of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// `*`.
    Everything,
    /// Every resource, by a policy of AWS without a wildcard in its actions.
    Managed,
    /// One resource.
    One(Target),
    /// Known only at deployment time.
    Unknown,
}

/// An event source mapping: the queue that Lambda polls for a function.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Its name and position.
    pub site: Site,
    /// The function it invokes.
    pub function: Field<Target>,
    /// The queue it polls.
    pub queue: Field<Target>,
    /// Whether it has `FilterCriteria`.
    pub filter: Field<()>,
    /// Whether Lambda accepts batch item failures: `ReportBatchItemFailures`.
    pub reports_failures: Field<bool>,
    /// `BatchSize`.
    pub batch_size: Field<u64>,
    /// `MaximumBatchingWindowInSeconds`.
    pub window: Field<Duration>,
    /// `ScalingConfig.MaximumConcurrency`.
    pub maximum_concurrency: Field<u64>,
    /// `ProvisionedPollerConfig`, which excludes a maximum concurrency.
    pub pollers: Field<Pollers>,
    /// `Enabled`.
    pub is_enabled: Field<bool>,
}

/// The pollers of a mapping in provisioned mode.
#[derive(Debug, Clone)]
pub struct Pollers {
    /// `MinimumPollers`.
    pub minimum: Field<u64>,
    /// `MaximumPollers`.
    pub maximum: Field<u64>,
}

impl Pollers {
    /// The least and the most, of which Lambda's defaults are 2 and 200.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        Some((self.minimum.or(2)?, self.maximum.or(200)?))
    }
}

/// An SQS queue.
#[derive(Debug, Clone)]
pub struct Queue {
    /// Its name and position.
    pub site: Site,
    /// Its ARN, if the source has it. A template never has.
    pub arn: Field<String>,
    /// `QueueName`.
    pub name: Field<String>,
    /// `FifoQueue`.
    pub is_fifo: Field<bool>,
    /// `VisibilityTimeout`.
    pub visibility_timeout: Field<Duration>,
    /// `MessageRetentionPeriod`.
    pub retention: Field<Duration>,
    /// `DelaySeconds`.
    pub delay: Field<Duration>,
    /// `ContentBasedDeduplication`.
    pub content_based_deduplication: Field<bool>,
    /// `FifoThroughputLimit`.
    pub throughput_limit: Field<String>,
    /// `DeduplicationScope`.
    pub deduplication_scope: Field<String>,
    /// `RedrivePolicy.deadLetterTargetArn`.
    pub dead_letter_queue: Field<Target>,
    /// `RedrivePolicy.maxReceiveCount`.
    pub max_receive_count: Field<u64>,
    /// `SqsManagedSseEnabled`.
    pub is_encrypted_by_sqs: Field<bool>,
    /// `KmsMasterKeyId`.
    pub kms_key: Field<String>,
    /// The key that `KmsMasterKeyId` refers to.
    pub key: Field<Target>,
    /// Whether its policy denies requests without TLS, with the place of the policy's statements.
    pub denies_plain_http: Field<bool>,
    /// The services to which its policies allow to send.
    pub admits: Admitted,
}

/// The services that policies admit, by their principals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Those that they admit, whatever the deployment decides.
    pub surely: Vec<&'static str>,
    /// Those, and others that they admit if the deployment decides so.
    pub perhaps: Vec<&'static str>,
}

impl Admitted {
    /// Whether only the deployment knows if this service is admitted.
    pub(crate) fn is_unknown(&self, service: &str) -> bool {
        self.perhaps.contains(&service) && !self.surely.contains(&service)
    }
}

/// SQS's defaults.
impl Queue {
    pub(crate) const DEFAULT_VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);
    pub(crate) const DEFAULT_RETENTION: Duration = Duration::from_secs(4 * 24 * 3600);

    pub(crate) fn visibility(&self) -> Option<Duration> {
        self.visibility_timeout.or(Self::DEFAULT_VISIBILITY_TIMEOUT)
    }

    /// Adds the result for one of the queue's policies. One policy that denies is enough.
    pub(crate) fn has_policy(&mut self, denies_plain_http: Field<bool>, admits: Admitted) {
        let is_denied = denies_plain_http.known() == Some(&true);
        let may_be_denied = self.denies_plain_http.or(false) != Some(false);
        if is_denied || !may_be_denied {
            self.denies_plain_http = denies_plain_http;
        }
        self.admits.surely.extend(admits.surely);
        self.admits.perhaps.extend(admits.perhaps);
    }

    pub(crate) fn retained(&self) -> Option<Duration> {
        self.retention.or(Self::DEFAULT_RETENTION)
    }
}

/// A DynamoDB table.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name and position.
    pub site: Site,
    /// `TableName`.
    pub name: Field<String>,
    /// The partition key's attribute.
    pub partition_key: Field<String>,
    /// The sort key's attribute.
    pub sort_key: Field<String>,
    /// The types of attributes (`S`, `N` or `B`) by name.
    pub attribute_types: BTreeMap<String, String>,
    /// The TTL attribute.
    pub ttl_attribute: Field<String>,
    /// Whether TTL is on.
    pub ttl_is_enabled: Field<bool>,
    /// `DeletionProtectionEnabled`.
    pub is_protected: Field<bool>,
    /// Whether it is a global table with multi-Region strong consistency.
    pub is_strongly_consistent: Field<bool>,
    /// The KMS key that encrypts it.
    pub key: Field<Target>,
}

/// A KMS key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Its name and position.
    pub site: Site,
    /// Whether its policy leaves it to the account's IAM policies who uses the key. `None` if only the deployment knows.
    pub delegates: Option<bool>,
    /// The services to which its policy allows to encrypt.
    pub admits: Admitted,
}

/// A CloudWatch alarm.
#[derive(Debug, Clone)]
pub struct Alarm {
    /// Its name and position.
    pub site: Site,
    /// The metrics that it watches: one, or those of an expression.
    pub metrics: Vec<Metric>,
    /// Whether it rings when its metric is one.
    pub rings_at_one: Field<bool>,
}

impl Alarm {
    /// Whether an alarm with this threshold and operator rings at one.
    pub(crate) fn rings(threshold: Field<f64>, operator: &Field<String>) -> Field<bool> {
        threshold.and_then(|threshold| match operator.known()?.as_str() {
            "GreaterThanThreshold" => Some(threshold < 1.0),
            "GreaterThanOrEqualToThreshold" => Some(threshold <= 1.0),
            "LessThanThreshold" | "LessThanOrEqualToThreshold" => Some(false),
            _ => None,
        })
    }
}

/// A metric that an alarm watches.
#[derive(Debug, Clone)]
pub struct Metric {
    /// For example `AWS/SQS`.
    pub namespace: Field<String>,
    /// For example `ApproximateNumberOfMessagesVisible`.
    pub name: Field<String>,
    /// The queue in its `QueueName` dimension.
    pub queue: Field<Target>,
}

impl Metric {
    pub(crate) const UNKNOWN: Self = Self {
        namespace: Field::Unknown,
        name: Field::Unknown,
        queue: Field::Unknown,
    };
}

/// A custom event bus.
#[derive(Debug, Clone)]
pub struct Bus {
    /// Its name and position.
    pub site: Site,
    /// `StorageConfiguration.RetentionPeriodInDays`.
    pub retention_days: Field<u64>,
}

/// A subscriber of a custom event bus.
#[derive(Debug, Clone)]
pub struct Subscriber {
    /// Its name and position.
    pub site: Site,
    /// `EventBusArn`.
    pub bus: Field<Target>,
    /// The permissions of its role.
    pub permissions: Permissions,
    /// `StartingPosition`.
    pub start: Field<String>,
    /// Whether the plan deletes it and then creates it anew. A template does not say.
    pub is_replaced: bool,
    /// `InvokeConfiguration.TargetArn`.
    pub target: Field<Target>,
    /// `OnFailureConfiguration.Arn`.
    pub failures: Field<Target>,
    /// `Type`.
    pub order: Field<String>,
    /// `InvokeConfiguration.SqsParameters.MessageDeduplicationId`.
    pub deduplication_id: Field<String>,
}

/// An AWS service that sends to a queue.
#[derive(Debug, Clone)]
pub struct Sender {
    /// Its name and position.
    pub site: Site,
    /// The principal of the service, for example `sns.amazonaws.com`.
    pub service: &'static str,
    /// The queue.
    pub queue: Field<Target>,
}
