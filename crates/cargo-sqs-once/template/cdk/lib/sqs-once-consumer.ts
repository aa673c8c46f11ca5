import { Aws, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import * as dynamodb from 'aws-cdk-lib/aws-dynamodb';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { RustFunction } from 'cargo-lambda-cdk';
import { Construct } from 'constructs';

/** How the function completes the keys of messages. */
export enum Keys {
  /** It claims a key in the table before the effect: at least once, deduplicated. */
  CLAIM = 'claim',
  /** It writes the effect and the key in one transaction of DynamoDB: effectively once. */
  TRANSACTION = 'transaction',
  /** It completes keys in another database, such as PostgreSQL. There is no table. */
  DATABASE = 'database',
}

/** The settings of a consumer. */
export interface SqsOnceConsumerProps {
  /** The binary that cargo-lambda builds. */
  readonly binaryName: string;

  /**
   * The folder of its `Cargo.toml`.
   *
   * @default - the parent folder
   */
  readonly manifestPath?: string;

  /**
   * The queue's name, the value of the metrics' dimension `service`, and the prefix of other names.
   *
   * @default - the stack's name
   */
  readonly serviceName?: string;

  /**
   * The function's description.
   *
   * @default - none
   */
  readonly description?: string;

  /**
   * Whether the queues are FIFO queues.
   *
   * @default false
   */
  readonly fifo?: boolean;

  /**
   * How the function completes keys.
   *
   * @default Keys.CLAIM
   */
  readonly keys?: Keys;

  /**
   * The processor. Graviton costs about a fifth less than x86-64 for the same duration.
   *
   * @default lambda.Architecture.ARM_64
   */
  readonly architecture?: lambda.Architecture;

  /**
   * The memory in MB, which also determines CPU. With less than 256, the TLS handshakes dominate a cold start.
   *
   * @default 256
   */
  readonly memorySize?: number;

  /**
   * The function's timeout, for a whole batch. The queue's visibility timeout follows from it.
   *
   * @default Duration.seconds(30)
   */
  readonly timeout?: Duration;

  /**
   * The most messages of a batch.
   *
   * @default - 25, or 10 for a FIFO queue, which is its maximum
   */
  readonly batchSize?: number;

  /**
   * The most batches at once. Unlike reserved concurrency, this limit never uses up a delivery.
   *
   * @default 10
   */
  readonly maxConcurrency?: number;

  /**
   * Environment variables other than `SQS_ONCE_SERVICE`, `SQS_ONCE_TABLE` and `SQS_ONCE_DLQ_URL`.
   *
   * @default - none
   */
  readonly environment?: { [name: string]: string };

  /**
   * The function's layers.
   *
   * @default - none
   */
  readonly layers?: lambda.ILayerVersion[];

  /**
   * The network of the function. It sends its dead letters through a NAT gateway or a VPC endpoint for SQS.
   *
   * @default - no VPC
   */
  readonly vpc?: ec2.IVpc;

  /**
   * The function's subnets in the VPC.
   *
   * @default - the private subnets
   */
  readonly vpcSubnets?: ec2.SubnetSelection;

  /**
   * The function's security groups in the VPC.
   *
   * @default - a new one
   */
  readonly securityGroups?: ec2.ISecurityGroup[];

  /**
   * The topic that the alarms notify. CloudWatch can't publish to a topic that `alias/aws/sns` encrypts.
   *
   * @default - only the console shows the alarms
   */
  readonly alarmTopic?: sns.ITopic;
}

/** A function with its queue, dead-letter queue, table, least-privilege role, alarms and dashboard. */
export class SqsOnceConsumer extends Construct {
  /** The function. Grant it what its effect needs. */
  public readonly function: lambda.Function;
  /** The queue. */
  public readonly queue: sqs.Queue;
  /** The dead-letter queue. */
  public readonly deadLetterQueue: sqs.Queue;
  /** The table with the keys, except with `Keys.DATABASE`. */
  public readonly table?: dynamodb.Table;

  constructor(scope: Construct, id: string, props: SqsOnceConsumerProps) {
    super(scope, id);
    const service = props.serviceName ?? Stack.of(this).stackName;
    const keys = props.keys ?? Keys.CLAIM;
    const timeout = props.timeout ?? Duration.seconds(30);
    // A batch of more than 10 messages needs a window. A FIFO queue has none.
    const window = props.fifo ? undefined : Duration.seconds(1);
    // Leaves time for Lambda's own retries when it is throttled. SQS's maximum is 12 hours.
    const visibilityTimeout = Math.min(timeout.toSeconds() * 6 + (window?.toSeconds() ?? 0), 43_200);
    // With fewer, a few throttled deliveries could move a valid message to the dead-letter queue. A FIFO queue needs two for
    // each message of a batch: those that follow a failed one return untried, and each return is a delivery.
    const maxReceiveCount = props.fifo ? 20 : 5;

    // ---- The queues ---------------------------------------------------------------------------

    // Named, because the dead-letter queue refers to it before it exists.
    const queueName = props.fifo ? `${service}.fifo` : service;
    const queueArn = Stack.of(this).formatArn({ service: 'sqs', resource: queueName });
    this.deadLetterQueue = new sqs.Queue(this, 'DeadLetterQueue', {
      // A FIFO queue needs a FIFO dead-letter queue.
      fifo: props.fifo || undefined,
      // SQS's maximum. The age of a redriven message counts from its first day in the source queue.
      retentionPeriod: Duration.days(14),
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      // Only this queue may use it as its dead-letter queue.
      redriveAllowPolicy: {
        redrivePermission: sqs.RedrivePermission.BY_QUEUE,
        sourceQueues: [sqs.Queue.fromQueueArn(this, 'SourceQueue', queueArn)],
      },
      // Its messages were never processed.
      removalPolicy: RemovalPolicy.RETAIN,
    });
    this.queue = new sqs.Queue(this, 'Queue', {
      queueName,
      fifo: props.fifo || undefined,
      // Message groups run in parallel, at thousands of messages a second.
      deduplicationScope: props.fifo ? sqs.DeduplicationScope.MESSAGE_GROUP : undefined,
      fifoThroughputLimit: props.fifo ? sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID : undefined,
      visibilityTimeout: Duration.seconds(visibilityTimeout),
      // Four days to notice an outage. Shorter than the dead-letter queue's retention, for the reason given there.
      retentionPeriod: Duration.days(4),
      // Encrypted with SQS's own key, which is free and needs no KMS permission.
      encryption: sqs.QueueEncryption.SQS_MANAGED,
      deadLetterQueue: { queue: this.deadLetterQueue, maxReceiveCount },
      // Deleted with the stack, so that a new stack can use its name. Drain the queue first.
      removalPolicy: RemovalPolicy.DESTROY,
    });

    for (const queue of [this.queue, this.deadLetterQueue]) {
      queue.addToResourcePolicy(
        new iam.PolicyStatement({
          sid: 'OnlyOverTls',
          // SQS accepts requests over plain HTTP unless a policy denies them.
          effect: iam.Effect.DENY,
          principals: [new iam.StarPrincipal()],
          actions: ['sqs:*'],
          resources: [queue.queueArn],
          conditions: { Bool: { 'aws:SecureTransport': 'false' } },
        }),
      );
    }

    // ---- The table ----------------------------------------------------------------------------

    if (keys !== Keys.DATABASE) {
      this.table = new dynamodb.Table(this, 'IdempotencyTable', {
        // On demand, because the load follows the queue. An idle table costs only its storage.
        billingMode: dynamodb.BillingMode.PAY_PER_REQUEST,
        partitionKey: { name: 'id', type: dynamodb.AttributeType.STRING },
        // Deletes a key some time after it expired. The function does not rely on the deletion.
        timeToLiveAttribute: 'expiration',
        // The table can be restored to any second of the last 35 days.
        pointInTimeRecoverySpecification: { pointInTimeRecoveryEnabled: true },
        // Prevents deletion by console or script until it is switched off.
        deletionProtection: true,
        // Without the table, messages that are in flight or sent again would be processed a second time.
        removalPolicy: RemovalPolicy.RETAIN,
      });
    }

    // ---- The function -------------------------------------------------------------------------

    const logGroup = new logs.LogGroup(this, 'FunctionLogGroup', {
      logGroupName: `/aws/lambda/${service}`,
      // At least as long as duplicates are recognised (28 days). Groups that Lambda creates never expire.
      retention: logs.RetentionDays.ONE_MONTH,
      // The logs are not needed after the stack is deleted.
      removalPolicy: RemovalPolicy.DESTROY,
    });
    // A role that CDK creates would have AWS's managed policies.
    const role = new iam.Role(this, 'FunctionRole', {
      description: 'The permissions that the function needs, and no others.',
      assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
    });
    this.function = new RustFunction(this, 'Function', {
      description: props.description,
      binaryName: props.binaryName,
      manifestPath: props.manifestPath ?? '..',
      // The newest OS-only runtime. The Rust binary contains its own runtime.
      runtime: 'provided.al2023',
      architecture: props.architecture ?? lambda.Architecture.ARM_64,
      memorySize: props.memorySize ?? 256,
      timeout,
      role,
      initialPolicy: this.statements(keys, logGroup, props.vpc !== undefined),
      // Traces each message through queue and function. CDK adds the permissions.
      tracing: lambda.Tracing.ACTIVE,
      // One JSON object per line. CloudWatch Logs Insights queries its fields.
      loggingFormat: lambda.LoggingFormat.JSON,
      // The function logs one INFO line for every message.
      applicationLogLevelV2: lambda.ApplicationLogLevel.INFO,
      systemLogLevelV2: lambda.SystemLogLevel.INFO,
      logGroup,
      layers: props.layers,
      vpc: props.vpc,
      vpcSubnets: props.vpcSubnets,
      securityGroups: props.securityGroups,
      environment: {
        ...props.environment,
        ...(this.table && { SQS_ONCE_TABLE: this.table.tableName }),
        // The function's name in log lines and metrics.
        SQS_ONCE_SERVICE: service,
        // Messages that can never succeed move there at once, not after all deliveries.
        SQS_ONCE_DLQ_URL: this.deadLetterQueue.queueUrl,
      },
    });
    // Not an SqsEventSource, which would grant more permissions than Lambda needs.
    new lambda.EventSourceMapping(this, 'Mapping', {
      target: this.function,
      eventSourceArn: this.queue.queueArn,
      // Without this, Lambda deletes the failed messages together with the good ones.
      reportBatchItemFailures: true,
      batchSize: props.batchSize ?? (props.fifo ? 10 : 25),
      maxBatchingWindow: window,
      maxConcurrency: props.maxConcurrency ?? 10,
    });

    // ---- The alarms and the dashboard ---------------------------------------------------------

    // CloudWatch's namespace of the function's metrics.
    const namespace = props.environment?.POWERTOOLS_METRICS_NAMESPACE ?? 'sqs-once';
    this.alarms(namespace, service, keys, visibilityTimeout, maxReceiveCount, props.alarmTopic);
    new cloudwatch.CfnDashboard(this, 'Dashboard', {
      dashboardName: service,
      dashboardBody: this.dashboard(namespace, service, logGroup.logGroupName),
    });
  }

  private statements(keys: Keys, logGroup: logs.ILogGroup, inVpc: boolean): iam.PolicyStatement[] {
    const allow = (sid: string, actions: string[], resource: string) =>
      new iam.PolicyStatement({ sid, actions, resources: [resource] });
    const statements = [
      // Lambda's poller uses the function's role.
      allow('PollTheQueue', ['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], this.queue.queueArn),
      // For `retry_after`, and for a message that another instance is processing.
      allow('StayAwayForAWhile', ['sqs:ChangeMessageVisibility'], this.queue.queueArn),
      // For messages that can never succeed. SQS's own redrive needs no permission.
      allow('SendToTheDeadLetterQueue', ['sqs:SendMessage'], this.deadLetterQueue.queueArn),
      // No CreateLogGroup: the stack creates the group, with its retention.
      allow('WriteLogs', ['logs:CreateLogStream', 'logs:PutLogEvents'], logGroup.logGroupArn),
    ];
    if (this.table && keys === Keys.CLAIM) {
      // The statements' own actions authorise BatchExecuteStatement. The function reads at its start, and keys that
      // already have an item.
      const actions = ['PartiQLInsert', 'PartiQLUpdate', 'UpdateItem', 'BatchGetItem'].map((name) => `dynamodb:${name}`);
      statements.push(allow('ClaimAndComplete', actions, this.table.tableArn));
    } else if (this.table) {
      // The writes' own actions authorise TransactWriteItems. The function reads at its start, and to distinguish a
      // duplicate from a failed condition.
      statements.push(allow('RecordKeys', ['dynamodb:UpdateItem', 'dynamodb:BatchGetItem'], this.table.tableArn));
    }
    if (inVpc) {
      // Lambda needs these for a function in a VPC, on every resource.
      const actions = [
        'ec2:CreateNetworkInterface',
        'ec2:DescribeNetworkInterfaces',
        'ec2:DescribeSubnets',
        'ec2:DeleteNetworkInterface',
        'ec2:AssignPrivateIpAddresses',
        'ec2:UnassignPrivateIpAddresses',
      ];
      statements.push(
        allow('JoinTheNetwork', actions, '*'),
        // Only calls of the function's code carry the function's ARN. Lambda's own calls do not.
        new iam.PolicyStatement({
          sid: 'NotByTheFunctionsOwnCode',
          effect: iam.Effect.DENY,
          actions,
          resources: ['*'],
          conditions: { Null: { 'lambda:SourceFunctionArn': 'false' } },
        }),
      );
    }
    return statements;
  }

  private alarms(
    namespace: string,
    service: string,
    keys: Keys,
    visibility: number,
    maxReceiveCount: number,
    topic?: sns.ITopic,
  ): void {
    const minute = Duration.minutes(1);
    const fiveMinutes = Duration.minutes(5);
    // In seconds, with five minutes to spare.
    const deliveries = visibility * maxReceiveCount + 300;
    const metric = (metricName: string, period = minute) =>
      new cloudwatch.Metric({
        namespace,
        metricName,
        dimensionsMap: { service },
        statistic: 'Sum',
        period,
      });
    const alarm = (id: string, props: Partial<cloudwatch.AlarmProps> & Pick<cloudwatch.AlarmProps, 'metric'>) => {
      const alarm = new cloudwatch.Alarm(this, id, {
        threshold: 0,
        evaluationPeriods: 1,
        ...props,
        comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
        // An idle queue reports no metrics after six hours.
        treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
      });
      if (topic) {
        alarm.addAlarmAction(new SnsAction(topic));
      }
    };
    alarm('DeadLetterAlarm', {
      alarmDescription:
        'Messages are in the dead-letter queue. Find the reason in the logs, fix it, and redrive the queue.',
      // A single message in the dead-letter queue raises the alarm.
      metric: this.deadLetterQueue.metricApproximateNumberOfMessagesVisible({ period: minute, statistic: 'Maximum' }),
    });
    alarm('OldestMessageAlarm', {
      alarmDescription: 'Messages wait too long. The function is throttled or too slow.',
      metric: this.queue.metricApproximateAgeOfOldestMessage({ period: minute, statistic: 'Maximum' }),
      // In a FIFO queue, longer than all deliveries of one message, so that a single failing message raises no alarm.
      // A standard queue does not count a message that it has delivered three times. EverythingFailsAlarm watches those.
      threshold: deliveries - (deliveries % 60),
      evaluationPeriods: 5,
    });
    alarm('ThrottlesAlarm', {
      alarmDescription:
        'The account has no concurrency left. Throttled deliveries count towards the dead-letter queue.',
      metric: this.function.metricThrottles({ period: minute, statistic: 'Sum' }),
      // Five minutes in a row, because SQS redelivers a short burst after the visibility timeout.
      evaluationPeriods: 5,
    });

    // The metrics that sqs-once reports.

    // A period is longer than the visibility timeout, so every failing message is delivered in it. With the default
    // timeout, two periods are shorter than all deliveries of a message.
    const period = Duration.minutes(5 * Math.floor(visibility / 300 + 1));
    alarm('EverythingFailsAlarm', {
      alarmDescription:
        `Every message fails. Read the reasons in the logs. After ${maxReceiveCount} deliveries, SQS moves a message to ` +
        'the dead-letter queue.',
      metric: new cloudwatch.MathExpression({
        // In an idle queue this has no value, because CloudWatch omits a division by zero. It counts a missing metric as 0.
        expression: '100 * (failed + terminal + errors) / (processed + failed + terminal + errors)',
        label: 'Failures in percent',
        usingMetrics: {
          processed: metric('Processed', period),
          failed: metric('Failed', period),
          terminal: metric('Terminal', period),
          // A process that crashes or times out writes none of the metrics above.
          errors: this.function.metricErrors({ period, statistic: 'Sum' }),
        },
        period,
      }),
      threshold: 99,
      evaluationPeriods: 2,
    });
    alarm('DuplicatesAlarm', {
      alarmDescription:
        'More than a tenth of the messages are duplicates. They had no effect, but a producer sends events twice, or ' +
        'messages become visible again while they are processed.',
      metric: new cloudwatch.MathExpression({
        // A few messages in a quiet hour give no meaningful rate.
        expression: 'IF(received >= 10, 100 * duplicates / received, 0)',
        label: 'Duplicates in percent',
        usingMetrics: {
          duplicates: metric('Duplicates', fiveMinutes),
          received: metric('RecordsReceived', fiveMinutes),
        },
        period: fiveMinutes,
      }),
      threshold: 10,
      // Ignores a producer that sends everything twice for a short time, for example after a deployment.
      evaluationPeriods: 3,
    });
    if (keys === Keys.CLAIM) {
      alarm('LeaseLostAlarm', {
        alarmDescription:
          'The effect of a message took longer than its lease, and another function instance took over. The effect may ' +
          'have happened twice.',
        metric: metric('LeaseLost'),
      });
    }
    alarm('PayloadMismatchAlarm', {
      alarmDescription:
        'Two different messages had the same business key, and the second is a dead letter. Its reason names what you ' +
        'can do. Either the key identifies too little, or a producer reuses it.',
      metric: metric('PayloadMismatch'),
    });
    alarm('StoreErrorsAlarm', {
      alarmDescription:
        `The ${keys === Keys.DATABASE ? 'database' : 'idempotency table'} does not answer. Messages wait in the ` +
        `queue, and after ${maxReceiveCount} deliveries they are dead letters.`,
      metric: metric('StoreErrors'),
      // The next delivery makes up for a minute of throttling. The three minutes need not be in a row: on a quiet queue,
      // the function uses the store only when a message returns, after the visibility timeout.
      evaluationPeriods: Math.max(15, Math.ceil((visibility * 3) / 60)),
      datapointsToAlarm: 3,
    });
    alarm('DependencyUnavailableAlarm', {
      alarmDescription:
        'A service that the function depends on is unavailable. Messages wait in the queue. The log names the service.',
      metric: metric('BreakerOpened', fiveMinutes),
      // A failed probe also counts. One alarm covers the probes of an outage, up to ten minutes apart.
      evaluationPeriods: 3,
      datapointsToAlarm: 1,
    });
  }

  private dashboard(namespace: string, service: string, logGroup: string): string {
    const region = Aws.REGION;
    const at = (x: number, y: number) => ({ type: 'metric', width: 12, height: 6, x, y });
    const [queue, dlq] = [this.queue.queueName, this.deadLetterQueue.queueName];
    const duplicates = '100 * duplicates / received';
    const failed =
      `SOURCE '${logGroup}' | fields @timestamp, outcome, code, reason, key, message_id, receive_count | ` +
      "filter outcome in ['failed', 'terminal'] | sort @timestamp desc | limit 50";
    const widgets = [
      {
        ...at(0, 0),
        properties: {
          title: 'Messages', region, stat: 'Sum', period: 60, stacked: true,
          metrics: [
            [namespace, 'Processed', 'service', service],
            ['.', 'Duplicates', '.', '.'],
            ['.', 'InProgressConflicts', '.', '.'],
            ['.', 'Failed', '.', '.'],
            ['.', 'Terminal', '.', '.'],
          ],
        },
      },
      {
        ...at(12, 0),
        properties: {
          title: 'Duplicates, and how often messages were delivered', region, period: 300,
          metrics: [
            [{ expression: duplicates, label: 'Duplicates in percent', id: 'percent' }],
            [namespace, 'Duplicates', 'service', service, { stat: 'Sum', id: 'duplicates', visible: false }],
            ['.', 'RecordsReceived', '.', '.', { stat: 'Sum', id: 'received', visible: false }],
            ['.', 'ReceiveCount', '.', '.', { stat: 'Maximum', yAxis: 'right', label: 'Deliveries, at most' }],
          ],
        },
      },
      {
        ...at(0, 6),
        properties: {
          title: 'What should not happen', region, stat: 'Sum', period: 60,
          metrics: [
            [namespace, 'LeaseLost', 'service', service],
            ['.', 'PayloadMismatch', '.', '.'],
            ['.', 'Undecodable', '.', '.'],
            ['.', 'DeadlineHits', '.', '.'],
            ['.', 'StillRunning', '.', '.'],
            ['.', 'StoreErrors', '.', '.'],
            ['AWS/Lambda', 'Errors', 'FunctionName', this.function.functionName],
            ['.', 'Throttles', '.', '.'],
          ],
        },
      },
      {
        ...at(12, 6),
        properties: {
          title: 'Queues', region, stat: 'Maximum', period: 60,
          metrics: [
            ['AWS/SQS', 'ApproximateNumberOfMessagesVisible', 'QueueName', queue, { label: 'Waiting' }],
            ['...', dlq, { label: 'Dead letters' }],
            ['.', 'ApproximateAgeOfOldestMessage', '.', queue, { label: 'Oldest, in seconds', yAxis: 'right' }],
          ],
        },
      },
      {
        ...at(0, 12),
        properties: {
          title: 'Time', region, period: 60,
          metrics: [
            [namespace, 'MessageAge', 'service', service, { stat: 'p99' }],
            ['.', 'HandlerDuration', '.', '.', { stat: 'p50' }],
            ['...', { stat: 'p99' }],
            ['.', 'BatchDuration', '.', '.', { stat: 'p99' }],
          ],
        },
      },
      {
        ...at(12, 12),
        properties: {
          title: 'The store and the function', region, stat: 'Sum', period: 60,
          metrics: [
            [namespace, 'StoreRequests', 'service', service],
            ['.', 'ColdStart', '.', '.'],
            ['AWS/Lambda', 'ConcurrentExecutions', 'FunctionName', this.function.functionName, { stat: 'Maximum' }],
          ],
        },
      },
      {
        ...at(0, 18), width: 24,
        properties: {
          title: 'Unavailable dependencies', region, stat: 'Sum', period: 60,
          metrics: [
            [namespace, 'Deferred', 'service', service],
            ['.', 'BreakerOpened', '.', '.'],
            [
              'AWS/SQS', 'ApproximateNumberOfMessagesNotVisible', 'QueueName', queue,
              { stat: 'Maximum', yAxis: 'right', label: 'In flight' },
            ],
          ],
        },
      },
      {
        ...at(0, 24), type: 'log', width: 24,
        properties: { title: 'Messages that failed', region, view: 'table', query: failed },
      },
    ];
    return Stack.of(this).toJsonString({ widgets });
  }
}
