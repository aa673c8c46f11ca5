# The deployment of {{ project_name }}. The module has the queues, the function, its role, the alarms and, except for
# PostgreSQL, the idempotency table. Everything else is in this file.

module "consumer" {
  source           = "./consumer"
  name             = var.name
  description      = "{% if effect == "elsewhere" %}Ships every order of the queue once.{% else %}Reserves ordered pieces once.{% endif %}"
  zip_file         = "${path.root}/../target/lambda/{{ project_name }}/bootstrap.zip"
  architecture     = var.architecture
  effect           = "{{ effect }}"
{%- if queue == "fifo" %}
  fifo             = true
{%- endif %}
  alarm_topic_arns = var.alarm_topic_arns
{%- if source == "sns" %}

  publisher_topic_arns = [aws_sns_topic.orders.arn]
{%- endif %}
{%- if effect == "postgres" %}

  # Each instance opens up to 10 connections to the database.
  maximum_concurrency = 5
{%- endif %}
{%- if effect == "dynamodb" %}

  environment = {
    ORDERS_TABLE = aws_dynamodb_table.orders.name
    STOCK_TABLE  = aws_dynamodb_table.stock.name
  }
  statements = [
    { sid = "KeepOrders", actions = ["dynamodb:PutItem"], resources = [aws_dynamodb_table.orders.arn] },
    { sid = "ReservePieces", actions = ["dynamodb:UpdateItem"], resources = [aws_dynamodb_table.stock.arn] },
  ]
{%- elsif effect == "postgres" %}

  layers             = [aws_lambda_layer_version.database_certificates.arn]
  subnet_ids         = var.subnet_ids
  security_group_ids = var.security_group_ids

  environment = {
    # No password: each new connection uses a token of the function's role and verifies the certificate.
    DATABASE_URL = "postgresql://${var.database_user}@${var.database_host}/${var.database_name}?auth=iam&sslrootcert=/opt/global-bundle.pem"
  }
  statements = [{
    # Connects with a token instead of a password, as this user only.
    sid       = "ConnectToTheDatabase"
    actions   = ["rds-db:connect"]
    resources = ["arn:${data.aws_partition.current.partition}:rds-db:${data.aws_region.current.region}:${data.aws_caller_identity.current.account_id}:dbuser:${var.database_resource_id}/${var.database_user}"]
  }]
{%- endif %}
}
{%- if source == "sns" %}

# ---- The topic ------------------------------------------------------------------------------

resource "aws_sns_topic" "orders" {
{%- if queue == "fifo" %}
  # A FIFO topic's name must end in `.fifo`. Publishers set the message group and the deduplication id.
  name       = "${var.name}.fifo"
  fifo_topic = true
{%- else %}
  name = var.name
{%- endif %}
  # SNS's own key, which is free. If an AWS service such as S3, EventBridge or CloudWatch publishes, use your own key.
  kms_master_key_id = "alias/aws/sns"
}

resource "aws_sns_topic_subscription" "queue" {
  topic_arn = aws_sns_topic.orders.arn
  protocol  = "sqs"
  endpoint  = module.consumer.queue_arn
  # The function unwraps SNS's envelope, which contains the publication's id and time.
  raw_message_delivery = false
  # Keeps messages that SNS can't deliver to the queue.
  redrive_policy = jsonencode({ deadLetterTargetArn = module.consumer.dead_letter_queue_arn })

  # The topic can't deliver before the queue's policy exists.
  depends_on = [module.consumer]
}
{%- elsif source == "bus" %}

# ---- The event bus --------------------------------------------------------------------------

resource "awscc_eventsv2_event_bus" "orders" {
  name = var.name
  # With a day of the subscriber's retries, and the 22 days that a copy of a message can live, as long as duplicates are
  # recognised (28 days). To keep events for longer, raise the function's SQS_ONCE_RETENTION first.
  storage_configuration = { retention_period_in_days = 5 }

  # It keeps events, perhaps also those of other consumers. To delete the deployment, remove this block first.
  lifecycle {
    prevent_destroy = true
  }
}

# A change of target_arn, type or starting_position replaces it, and events between the two are not delivered.
resource "awscc_eventsv2_subscriber" "queue" {
  name          = var.name
  event_bus_arn = awscc_eventsv2_event_bus.orders.event_bus_arn
{%- if queue == "fifo" %}
  type          = "FIFO"
{%- endif %}
  invoke_configuration = {
    target_arn = module.consumer.queue_arn
    role_arn   = aws_iam_role.subscriber.arn
{%- if queue == "fifo" %}
    sqs_parameters = {
      # An expression without a value fails, so an event without a group has its own.
      message_group_id         = "{% raw %}{% $events.SystemMetadata.EventGroupId ? $events.SystemMetadata.EventGroupId : $events.SystemMetadata.`aws:EventId` %}{% endraw %}"
      message_deduplication_id = "{% raw %}{% $events.SystemMetadata.`aws:EventId` %}{% endraw %}"
    }
{%- endif %}
  }
  # The function unwraps this envelope, which contains the event's id and whether it is a replay.
  transformer = { type = "WITH_METADATA" }
{%- if queue == "fifo" %}
  # An hour to correct a mistake, not five minutes. A call that fails holds up all groups as long.
  retry_policy             = { max_retry_attempts = 185, max_event_age_in_seconds = 3600 }
{%- else %}
  # A day to correct a mistake, not five minutes.
  retry_policy             = { max_retry_attempts = 185, max_event_age_in_seconds = 86400 }
{%- endif %}
  on_failure_configuration = { arn = aws_sqs_queue.undelivered_events.arn }

  # The subscriber can't deliver before its role may.
  depends_on = [aws_iam_role_policy.subscriber]
}
{%- if effect != "postgres" %}

data "aws_caller_identity" "current" {}
{%- endif %}

resource "aws_iam_role" "subscriber" {
  # A prefix, because a role's name is unique in all regions. It has up to 38 characters.
  name_prefix = "${substr(var.name, 0, 37)}-"
  description = "Delivers events to the queue."
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "events.amazonaws.com" }
      Action    = "sts:AssumeRole"
      Condition = { StringEquals = { "aws:SourceAccount" = data.aws_caller_identity.current.account_id } }
    }]
  })
}

resource "aws_iam_role_policy" "subscriber" {
  name = "deliver"
  role = aws_iam_role.subscriber.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = "sqs:SendMessage"
      Resource = [module.consumer.queue_arn, aws_sqs_queue.undelivered_events.arn]
    }]
  })
}

# Reports of events that the subscriber gave up, and not the events.
resource "aws_sqs_queue" "undelivered_events" {
{%- if queue == "fifo" %}
  # For a FIFO subscriber.
  name                        = "${var.name}-undelivered.fifo"
  fifo_queue                  = true
  content_based_deduplication = true
  message_retention_seconds   = 1209600
  sqs_managed_sse_enabled     = true
{%- else %}
  name                      = "${var.name}-undelivered"
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true
{%- endif %}

  # To delete the deployment, remove this block first.
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_sqs_queue_policy" "undelivered_events" {
  queue_url = aws_sqs_queue.undelivered_events.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "OnlyOverTls"
      Effect    = "Deny"
      Principal = "*"
      Action    = "sqs:*"
      Resource  = aws_sqs_queue.undelivered_events.arn
      Condition = { Bool = { "aws:SecureTransport" = "false" } }
    }]
  })
}

resource "aws_cloudwatch_metric_alarm" "undelivered_events" {
  alarm_name          = "${var.name}-undelivered"
  alarm_description   = "The subscriber gave up events. Correct the cause, and let a new subscriber start before their time."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.undelivered_events.name }
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  period              = 60
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}
{%- endif %}
{%- if effect == "dynamodb" %}

# ---- The tables -----------------------------------------------------------------------------

resource "aws_dynamodb_table" "orders" {
  name                        = "${var.name}-orders"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "order_id"
  deletion_protection_enabled = true

  attribute {
    name = "order_id"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }

  # To delete the deployment, remove this block first, and switch the deletion protection off.
  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_dynamodb_table" "stock" {
  name                        = "${var.name}-stock"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "article"
  deletion_protection_enabled = true

  attribute {
    name = "article"
    type = "S"
  }

  point_in_time_recovery {
    enabled = true
  }

  # To delete the deployment, remove this block first, and switch the deletion protection off.
  lifecycle {
    prevent_destroy = true
  }
}
{%- elsif effect == "postgres" %}

# ---- The database ---------------------------------------------------------------------------

data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

data "archive_file" "certificates" {
  type        = "zip"
  source_dir  = "${path.root}/../certificates"
  output_path = "${path.root}/.terraform/certificates.zip"
}

resource "aws_lambda_layer_version" "database_certificates" {
  layer_name  = "${var.name}-database-certificates"
  description = "The certificate authorities of Amazon RDS, which operating systems do not trust."
  # Lambda mounts its files in /opt. README.md shows how to fetch the certificates.
  filename         = data.archive_file.certificates.output_path
  source_code_hash = data.archive_file.certificates.output_base64sha256
  # Keeps the previous version, which a rollback needs.
  skip_destroy = true
}
{%- endif %}
