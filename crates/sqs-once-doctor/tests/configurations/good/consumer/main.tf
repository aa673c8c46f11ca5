variable "name" {
  type = string
}

variable "table" {
  type = object({ arn = string, name = string })
}

variable "timeout" {
  type    = number
  default = 3
}

variable "settings" {
  type = object({
    batch_size = optional(number, 10)
    window     = optional(number, 1)
  })
}

variable "extra" {
  type    = list(object({ actions = list(string), resources = list(string) }))
  default = []
}

variable "fifo" {
  type    = bool
  default = false
}

locals {
  # Each depends on the next.
  suffix = local.is_fifo ? ".fifo" : ""

  is_fifo = try(tobool(var.fifo), false)
}

resource "aws_sqs_queue" "orders" {
  name                       = "${var.name}${local.suffix}"
  visibility_timeout_seconds = 6 * var.timeout + var.settings.window
  message_retention_seconds  = 345600
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead[0].arn
    maxReceiveCount     = max(3, 5)
  })
}

resource "aws_sqs_queue" "dead" {
  count                     = 1
  name                      = join("-", [var.name, "dead"])
  message_retention_seconds = 14 * 86400
}

data "aws_iam_policy_document" "tls" {
  for_each = {
    orders = aws_sqs_queue.orders.arn
    dead   = one(aws_sqs_queue.dead[*].arn)
  }

  statement {
    effect    = "Deny"
    actions   = ["sqs:*"]
    resources = [each.value]

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
}

resource "aws_sqs_queue_policy" "tls" {
  for_each  = { orders = aws_sqs_queue.orders.url, dead = aws_sqs_queue.dead[0].id }
  queue_url = each.value
  policy    = data.aws_iam_policy_document.tls[each.key].json
}

data "aws_iam_policy_document" "function" {
  statement {
    actions   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"]
    resources = [aws_sqs_queue.orders.arn]
  }

  statement {
    actions   = ["sqs:SendMessage"]
    resources = aws_sqs_queue.dead[*].arn
  }

  statement {
    actions = [
      for action in ["PartiQLInsert", "PartiQLUpdate", "UpdateItem", "BatchGetItem"] : "dynamodb:${action}"
    ]
    resources = [var.table.arn]
  }

  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["*"]
  }

  dynamic "statement" {
    for_each = var.extra
    content {
      actions   = statement.value.actions
      resources = statement.value.resources
    }
  }
}

resource "aws_iam_role" "function" {
  assume_role_policy = jsonencode({})
}

resource "aws_iam_role_policy" "function" {
  role   = aws_iam_role.function.id
  policy = data.aws_iam_policy_document.function.json
}

resource "aws_lambda_function" "charge" {
  function_name    = var.name
  filename         = "${path.root}/../target/lambda/charge/bootstrap.zip"
  source_code_hash = filebase64sha256("${path.root}/../target/lambda/charge/bootstrap.zip")
  handler          = "bootstrap"
  runtime          = "provided.al2023"
  role             = aws_iam_role.function.arn
  timeout          = var.timeout

  environment {
    variables = merge({ SQS_ONCE_TABLE = var.table.name }, { SQS_ONCE_DLQ_URL = aws_sqs_queue.dead[0].url })
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn                   = aws_sqs_queue.orders.arn
  function_name                      = aws_lambda_function.charge.arn
  function_response_types            = ["ReportBatchItemFailures"]
  batch_size                         = var.settings.batch_size
  maximum_batching_window_in_seconds = var.settings.window

  scaling_config {
    maximum_concurrency = 10
  }
}

output "dead_letter_queue_name" {
  value = aws_sqs_queue.dead[0].name
}
