import { App, {% if effect == "postgres" %}ArnFormat, {% endif %}CfnOutput{% if source == "bus" %}, Duration{% endif %}{% if effect != "elsewhere" or source == "bus" %}, RemovalPolicy{% endif %}, Stack } from 'aws-cdk-lib';
{%- if source == "bus" %}
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
{%- endif %}
{%- if effect == "dynamodb" %}
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
{%- endif %}
{%- if effect == "postgres" %}
import * as ec2 from 'aws-cdk-lib/aws-ec2';
{%- endif %}
{%- if source == "bus" %}
import * as eventsv2 from 'aws-cdk-lib/aws-eventsv2';
{%- endif %}
{%- if effect != "elsewhere" or source == "bus" %}
import * as iam from 'aws-cdk-lib/aws-iam';
{%- endif %}
{%- if effect == "postgres" %}
import * as lambda from 'aws-cdk-lib/aws-lambda';
{%- endif %}
import * as sns from 'aws-cdk-lib/aws-sns';
{%- if source == "sns" %}
import { SqsSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
{%- elsif source == "bus" %}
import * as sqs from 'aws-cdk-lib/aws-sqs';
{%- endif %}
import { {% if effect != "elsewhere" %}Keys, {% endif %}SqsOnceConsumer } from '../lib/sqs-once-consumer';

const app = new App();
{%- if effect == "elsewhere" %}
const description = 'The function {{ project_name }} and its queue. Ships every order once.';
{%- else %}
const description = 'The function {{ project_name }} and its queue. Reserves ordered pieces once.';
{%- endif %}
const stack = new Stack(app, '{{ project_name }}', { description });

/** A setting: `"context"` in cdk.json, or `--context NAME=VALUE`. */
function setting(name: string): string | undefined {
  return app.node.tryGetContext(name);
}

// The SNS topic that the alarms notify. Without it, only the console shows the alarms. CloudWatch can't publish to a topic
// that `alias/aws/sns` encrypts.
const alarmTopicArn = setting('alarmTopicArn');
const alarmTopic = alarmTopicArn ? sns.Topic.fromTopicArn(stack, 'AlarmTopic', alarmTopicArn) : undefined;
{%- if effect == "postgres" %}

// ---- The database -----------------------------------------------------------------------------

function required(name: string, what: string): string {
  const value = setting(name);
  if (!value) {
    throw new Error(`set ${name} in "context" of cdk.json, or with --context ${name}=…: ${what}`);
  }
  return value;
}

const host = required('databaseHost', 'the endpoint in Amazon RDS or Aurora, where IAM authentication is enabled');
const database = required('databaseName', 'the database');
const user = required('databaseUser', 'the user, to whom rds_iam is granted; it has no password');
const resourceId = required('databaseResourceId', 'db-… of an instance, cluster-… of Aurora, or prx-… of an RDS Proxy');

// The database's network, if the function needs a VPC to reach it. If a stack of yours creates it, pass that `Vpc`.
const vpcId = setting('vpcId');
const list = (name: string, what: string) => required(name, `the function's ${what}, separated by commas`).split(',');
const network = vpcId
  ? {
      vpc: ec2.Vpc.fromVpcAttributes(stack, 'Network', {
        vpcId,
        privateSubnetIds: list('subnetIds', 'subnets'),
        // The function needs no names of zones.
        availabilityZones: list('subnetIds', 'subnets'),
      }),
      securityGroups: list('securityGroupIds', 'security groups').map((id) =>
        ec2.SecurityGroup.fromSecurityGroupId(stack, id, id),
      ),
    }
  : {};

const certificates = new lambda.LayerVersion(stack, 'DatabaseCertificates', {
  description: 'The certificate authorities of Amazon RDS, which operating systems do not trust.',
  // Lambda mounts its files in /opt. README.md shows how to fetch the certificates.
  code: lambda.Code.fromAsset('../certificates'),
  removalPolicy: RemovalPolicy.RETAIN,
});
{%- endif %}

// ---- The function, its queues{% if effect != "postgres" %}, its table{% endif %} and its alarms ----

const consumer = new SqsOnceConsumer(stack, 'Consumer', {
  binaryName: '{{ project_name }}',
{%- if effect == "elsewhere" %}
  description: 'Ships every order of the queue once.',
{%- else %}
  description: 'Reserves ordered pieces once.',
{%- endif %}
{%- if queue == "fifo" %}
  fifo: true,
{%- endif %}
{%- if effect == "dynamodb" %}
  keys: Keys.TRANSACTION,
{%- elsif effect == "postgres" %}
  keys: Keys.DATABASE,
  // Each instance opens up to 10 connections to the database.
  maxConcurrency: 5,
  layers: [certificates],
  ...network,
  environment: {
    // No password: each new connection uses a token of the function's role and verifies the certificate.
    DATABASE_URL: `postgresql://${user}@${host}/${database}?auth=iam&sslrootcert=/opt/global-bundle.pem`,
  },
{%- endif %}
  alarmTopic,
});
{%- if effect == "postgres" %}
consumer.function.addToRolePolicy(
  new iam.PolicyStatement({
    sid: 'ConnectToTheDatabase',
    // Connects with a token instead of a password, as this user only.
    actions: ['rds-db:connect'],
    resources: [
      stack.formatArn({
        service: 'rds-db',
        resource: 'dbuser',
        resourceName: `${resourceId}/${user}`,
        arnFormat: ArnFormat.COLON_RESOURCE_NAME,
      }),
    ],
  }),
);
{%- endif %}
{%- if effect == "dynamodb" %}

// ---- The tables of the effect -----------------------------------------------------------------

function table(id: string, key: string, variable: string, sid: string, action: string): void {
  const table = new dynamodb.Table(stack, id, {
    billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
    partitionKey: { name: key, type: dynamodb.AttributeType.STRING },
    pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
    deletionProtection: true,
    removalPolicy: RemovalPolicy.RETAIN,
  });
  consumer.function.addEnvironment(variable, table.tableName);
  const statement = new iam.PolicyStatement({ sid, actions: [action], resources: [table.tableArn] });
  consumer.function.addToRolePolicy(statement);
}
table('OrdersTable', 'order_id', 'ORDERS_TABLE', 'KeepOrders', 'dynamodb:PutItem');
table('StockTable', 'article', 'STOCK_TABLE', 'ReservePieces', 'dynamodb:UpdateItem');
{%- endif %}
{%- if source == "sns" %}

// ---- The topic --------------------------------------------------------------------------------

const topic = new sns.Topic(stack, 'Topic', {
{%- if queue == "fifo" %}
  fifo: true,
  // A FIFO topic's name must end in `.fifo`. Publishers set the message group and the deduplication id.
  topicName: `${stack.stackName}.fifo`,
{%- endif %}
});
// SNS's own key, which is free. If an AWS service such as S3, EventBridge or CloudWatch publishes, use your own key.
(topic.node.defaultChild as sns.CfnTopic).kmsMasterKeyId = 'alias/aws/sns';
topic.addSubscription(
  new SqsSubscription(consumer.queue, {
    // The function unwraps SNS's envelope, which contains the publication's id and time.
    rawMessageDelivery: false,
    // Keeps messages that SNS can't deliver to the queue.
    deadLetterQueue: consumer.deadLetterQueue,
  }),
);
{%- elsif source == "bus" %}

// ---- The event bus ----------------------------------------------------------------------------

const bus = new eventsv2.CfnEventBus(stack, 'Bus', {
  name: stack.stackName,
  // With a day of the subscriber's retries, and the 22 days that a copy of a message can live, as long as duplicates are
  // recognised (28 days). To keep events for longer, raise the function's SQS_ONCE_RETENTION first.
  storageConfiguration: { retentionPeriodInDays: 5 },
});
// It keeps events, perhaps also those of other consumers.
bus.applyRemovalPolicy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE);
// Reports of events that the subscriber gave up, and not the events.
const undelivered = new sqs.Queue(stack, 'UndeliveredEvents', {
{%- if queue == "fifo" %}
  // For a FIFO subscriber.
  fifo: true,
  contentBasedDeduplication: true,
{%- endif %}
  retentionPeriod: Duration.days(14),
  encryption: sqs.QueueEncryption.SQS_MANAGED,
  enforceSSL: true,
  removalPolicy: RemovalPolicy.RETAIN,
});
const role = new iam.Role(stack, 'SubscriberRole', {
  description: 'Delivers events to the queue.',
  assumedBy: new iam.ServicePrincipal('events.amazonaws.com', {
    conditions: { StringEquals: { 'aws:SourceAccount': stack.account } },
  }),
  inlinePolicies: {
    deliver: new iam.PolicyDocument({
      statements: [
        new iam.PolicyStatement({
          actions: ['sqs:SendMessage'],
          resources: [consumer.queue.queueArn, undelivered.queueArn],
        }),
      ],
    }),
  },
});
// A change of targetArn, type or startingPosition replaces it, and events between the two are not delivered.
new eventsv2.CfnSubscriber(stack, 'Subscriber', {
  name: stack.stackName,
  eventBusArn: bus.ref,
{%- if queue == "fifo" %}
  type: 'FIFO',
{%- endif %}
  invokeConfiguration: {
    targetArn: consumer.queue.queueArn,
    roleArn: role.roleArn,
{%- if queue == "fifo" %}
    sqsParameters: {
      // An expression without a value fails, so an event without a group has its own.
      messageGroupId:
        '{% raw %}{% $events.SystemMetadata.EventGroupId ? $events.SystemMetadata.EventGroupId : $events.SystemMetadata.`aws:EventId` %}{% endraw %}',
      messageDeduplicationId: '{% raw %}{% $events.SystemMetadata.`aws:EventId` %}{% endraw %}',
    },
{%- endif %}
  },
  // The function unwraps this envelope, which contains the event's id and whether it is a replay.
  transformer: { type: 'WITH_METADATA' },
{%- if queue == "fifo" %}
  // An hour to correct a mistake, not five minutes. A call that fails holds up all groups as long.
  retryPolicy: { maxRetryAttempts: 185, maxEventAgeInSeconds: 3600 },
{%- else %}
  // A day to correct a mistake, not five minutes.
  retryPolicy: { maxRetryAttempts: 185, maxEventAgeInSeconds: 86400 },
{%- endif %}
  onFailureConfiguration: { arn: undelivered.queueArn },
});
const visible = undelivered.metricApproximateNumberOfMessagesVisible({
  period: Duration.minutes(1),
  statistic: 'Maximum',
});
const alarm = visible.createAlarm(stack, 'UndeliveredEventsAlarm', {
  alarmDescription:
    'The subscriber gave up events. Correct the cause, and let a new subscriber start before their time.',
  comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
  threshold: 0,
  evaluationPeriods: 1,
  treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
});
if (alarmTopic) {
  alarm.addAlarmAction(new SnsAction(alarmTopic));
}
{%- endif %}

// ---- The outputs ------------------------------------------------------------------------------

new CfnOutput(stack, 'FunctionName', { description: 'The function.', value: consumer.function.functionName });
{%- if source == "sns" %}
new CfnOutput(stack, 'TopicArn', { description: 'The topic to publish orders to.', value: topic.topicArn });
{%- elsif source == "bus" %}
new CfnOutput(stack, 'EventBusArn', { description: 'The event bus to publish orders to.', value: bus.ref });
{%- endif %}
new CfnOutput(stack, 'QueueUrl', { description: 'The queue of orders.', value: consumer.queue.queueUrl });
new CfnOutput(stack, 'DeadLetterQueueUrl', {
  description: 'The dead-letter queue.',
  value: consumer.deadLetterQueue.queueUrl,
});
{%- if effect != "postgres" %}
if (consumer.table) {
  new CfnOutput(stack, 'TableName', {
    description: 'The table with the completions of processed orders.',
    value: consumer.table.tableName,
  });
}
{%- endif %}
