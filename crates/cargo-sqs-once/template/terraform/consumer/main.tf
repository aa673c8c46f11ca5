# A consumer of an SQS queue with sqs-once: the queue, its dead-letter queue, the idempotency table, the function with its
# role and logs, the alarms and the dashboard.

data "aws_region" "current" {}

locals {
  batch_size = coalesce(var.batch_size, var.fifo ? 10 : 25)
  # A batch of more than 10 messages needs a window. A message may wait one second.
  window_seconds = var.fifo ? 0 : coalesce(var.batching_window_seconds, 1)
  # Leaves time for Lambda's own retries when it is throttled. SQS's maximum is 12 hours.
  visibility_timeout_seconds = min(6 * var.timeout_seconds + local.window_seconds, 43200)
  has_table                  = var.effect != "postgres"
  has_vpc                    = length(var.subnet_ids) > 0
}

# ---- The function ---------------------------------------------------------------------------

resource "aws_lambda_function" "function" {
  function_name    = var.name
  description      = var.description
  filename         = var.zip_file
  source_code_hash = filebase64sha256(var.zip_file)
  handler          = "bootstrap"
  # The newest OS-only runtime. The Rust binary contains its own runtime.
  runtime       = "provided.al2023"
  architectures = [var.architecture]
  memory_size   = var.memory_mb
  timeout       = var.timeout_seconds
  role          = aws_iam_role.function.arn
  layers        = var.layers

  environment {
    variables = merge(
      var.environment,
      {
        # The function's name in log lines and metrics.
        SQS_ONCE_SERVICE = var.name
        # Messages that can never succeed move there at once, not after all deliveries.
        SQS_ONCE_DLQ_URL = aws_sqs_queue.dead_letters.url
      },
      local.has_table ? { SQS_ONCE_TABLE = aws_dynamodb_table.idempotency[0].name } : {}
    )
  }

  logging_config {
    # One JSON object per line. CloudWatch Logs Insights queries its fields.
    log_format = "JSON"
    # The function logs one INFO line for every message.
    application_log_level = "INFO"
    system_log_level      = "INFO"
    log_group             = aws_cloudwatch_log_group.function.name
  }

  # Traces each message through queue and function.
  tracing_config {
    mode = "Active"
  }

  # A function in a VPC sends its dead letters through a NAT gateway or a VPC endpoint for SQS.
  dynamic "vpc_config" {
    for_each = local.has_vpc ? ["vpc"] : []
    content {
      subnet_ids         = var.subnet_ids
      security_group_ids = var.security_group_ids
    }
  }

  # Lambda refuses a function in a VPC whose role may not join it.
  depends_on = [aws_iam_role_policy.network]
}

resource "aws_lambda_event_source_mapping" "queue" {
  event_source_arn = aws_sqs_queue.queue.arn
  function_name    = aws_lambda_function.function.function_name
  # Without this, Lambda deletes the failed messages together with the good ones.
  function_response_types            = ["ReportBatchItemFailures"]
  batch_size                         = local.batch_size
  maximum_batching_window_in_seconds = var.fifo ? null : local.window_seconds

  # Unlike reserved concurrency, this limit never uses up a delivery.
  scaling_config {
    maximum_concurrency = var.maximum_concurrency
  }

  # Lambda refuses a mapping whose role may not poll the queue.
  depends_on = [aws_iam_role_policy.function]

  lifecycle {
    precondition {
      condition     = !var.fifo || local.batch_size <= 10 && var.batching_window_seconds == null
      error_message = "A batch of a FIFO queue has 10 messages at most, and no window."
    }
    precondition {
      condition     = var.fifo || local.batch_size <= 10 || local.window_seconds >= 1
      error_message = "A batch of more than 10 messages needs a window of at least one second."
    }
  }
}

resource "aws_cloudwatch_log_group" "function" {
  name = "/aws/lambda/${var.name}"
  # Groups that Lambda creates never expire.
  retention_in_days = var.log_retention_days
}

# ---- The role -------------------------------------------------------------------------------

resource "aws_iam_role" "function" {
  # A prefix, because a role's name is unique in all regions. It has up to 38 characters.
  name_prefix = "${substr(var.name, 0, 37)}-"
  description = "The permissions that the function needs, and no others."
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "lambda.amazonaws.com" }
      Action    = "sts:AssumeRole"
    }]
  })
}

locals {
  table_statements = {
    elsewhere = {
      Sid = "ClaimAndComplete"
      # The statements' own actions authorise BatchExecuteStatement. The function reads at its start, and keys that already
      # have an item.
      Action = ["dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem", "dynamodb:BatchGetItem"]
    }
    dynamodb = {
      Sid = "RecordKeys"
      # The writes' own actions authorise TransactWriteItems. The function reads at its start, and to distinguish a
      # duplicate from a failed condition.
      Action = ["dynamodb:UpdateItem", "dynamodb:BatchGetItem"]
    }
  }
}

resource "aws_iam_role_policy" "function" {
  name = "function"
  role = aws_iam_role.function.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [for table in aws_dynamodb_table.idempotency : {
        Sid      = local.table_statements[var.effect].Sid
        Effect   = "Allow"
        Action   = local.table_statements[var.effect].Action
        Resource = table.arn
      }],
      [for statement in var.statements : {
        Sid      = statement.sid
        Effect   = "Allow"
        Action   = statement.actions
        Resource = statement.resources
      }],
      [
        {
          Sid    = "PollTheQueue"
          Effect = "Allow"
          # Lambda's poller uses the function's role.
          Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
          Resource = aws_sqs_queue.queue.arn
        },
        {
          Sid    = "StayAwayForAWhile"
          Effect = "Allow"
          # For `retry_after`, and for a message that another instance is processing.
          Action   = "sqs:ChangeMessageVisibility"
          Resource = aws_sqs_queue.queue.arn
        },
        {
          Sid    = "SendToTheDeadLetterQueue"
          Effect = "Allow"
          # For messages that can never succeed. SQS's own redrive needs no permission.
          Action   = "sqs:SendMessage"
          Resource = aws_sqs_queue.dead_letters.arn
        },
        {
          Sid    = "WriteLogs"
          Effect = "Allow"
          # No CreateLogGroup: this module creates the group, with its retention.
          Action   = ["logs:CreateLogStream", "logs:PutLogEvents"]
          Resource = "${aws_cloudwatch_log_group.function.arn}:*"
        },
        {
          Sid    = "WriteTraces"
          Effect = "Allow"
          # X-Ray supports no narrower resource for these actions.
          Action   = ["xray:PutTraceSegments", "xray:PutTelemetryRecords"]
          Resource = "*"
        },
      ]
    )
  })
}

locals {
  # Lambda needs these for a function in a VPC, on every resource.
  network_actions = [
    "ec2:CreateNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSubnets",
    "ec2:DeleteNetworkInterface",
    "ec2:AssignPrivateIpAddresses",
    "ec2:UnassignPrivateIpAddresses",
  ]
}

resource "aws_iam_role_policy" "network" {
  count = local.has_vpc ? 1 : 0
  name  = "network"
  role  = aws_iam_role.function.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "JoinTheNetwork"
        Effect   = "Allow"
        Action   = local.network_actions
        Resource = "*"
      },
      {
        Sid    = "NotByTheFunctionsOwnCode"
        Effect = "Deny"
        # Only calls of the function's code carry the function's ARN. Lambda's own calls do not.
        Action    = local.network_actions
        Resource  = "*"
        Condition = { Null = { "lambda:SourceFunctionArn" = "false" } }
      },
    ]
  })
}
