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
  # SNS's own key, which is free. If an AWS service such as S3 or EventBridge publishes, use your own key.
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
