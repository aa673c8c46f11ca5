# A consumer without findings. The part `bad.tf` or `good.tf` of a rule overrides parts of it.
resource "aws_sqs_queue" "orders" {
  name                       = "orders"
  visibility_timeout_seconds = 180
  message_retention_seconds  = 345600
  policy                     = data.aws_iam_policy_document.tls.json
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = 5
  })
}

resource "aws_sqs_queue" "dead" {
  name                      = "orders-dead"
  message_retention_seconds = 1209600
  policy                    = data.aws_iam_policy_document.tls.json
}

data "aws_iam_policy_document" "tls" {
  statement {
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = ["*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }

  statement {
    actions   = ["sqs:SendMessage"]
    resources = ["*"]

    principals {
      type        = "Service"
      identifiers = ["sns.amazonaws.com", "s3.amazonaws.com", "events.amazonaws.com"]
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "dead" {
  alarm_name          = "orders-dead"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dead.name }
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
}

resource "aws_dynamodb_table" "keys" {
  name                        = "keys"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "id"
  deletion_protection_enabled = true

  attribute {
    name = "id"
    type = "S"
  }

  ttl {
    attribute_name = "expiration"
    enabled        = true
  }
}

locals {
  environment = {}
  permissions = []
}

resource "aws_iam_role" "charge" {
  assume_role_policy = jsonencode({})
}

data "aws_iam_policy_document" "charge" {
  statement {
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
    resources = [aws_sqs_queue.orders.arn]
  }

  statement {
    actions   = ["dynamodb:UpdateItem", "dynamodb:BatchGetItem", "dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate"]
    resources = [aws_dynamodb_table.keys.arn]
  }

  dynamic "statement" {
    for_each = local.permissions
    content {
      actions   = statement.value.actions
      resources = statement.value.resources
    }
  }
}

resource "aws_iam_role_policy" "charge" {
  role   = aws_iam_role.charge.id
  policy = data.aws_iam_policy_document.charge.json
}

resource "aws_lambda_function" "charge" {
  function_name = "charge"
  filename      = "target/lambda/charge/bootstrap.zip"
  handler       = "bootstrap"
  runtime       = "provided.al2023"
  role          = aws_iam_role.charge.arn
  timeout       = 30

  environment {
    variables = merge({ SQS_ONCE_TABLE = aws_dynamodb_table.keys.name }, local.environment)
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn        = aws_sqs_queue.orders.arn
  function_name           = aws_lambda_function.charge.function_name
  function_response_types = ["ReportBatchItemFailures"]
  batch_size              = 10
}
