variable "timeout" {
  type    = number
  default = 30
}

resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = var.timeout
  redrive_policy             = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 5 })
}

resource "aws_sqs_queue" "dead" {
  message_retention_seconds = 345600
}

resource "aws_sqs_queue" "other" {}

resource "aws_cloudwatch_metric_alarm" "dead" {
  alarm_name          = "dead"
  namespace           = "AWS/SQS"
  metric_name         = "NumberOfMessagesSent"
  dimensions          = { QueueName = aws_sqs_queue.dead.name }
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
}

resource "aws_dynamodb_table" "keys" {
  name     = "keys"
  hash_key = "id"
}

resource "aws_iam_role" "charge" {
  assume_role_policy = jsonencode({})
}

resource "aws_iam_role_policy" "charge" {
  role = aws_iam_role.charge.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      { Effect = "Allow", Action = "dynamodb:*", Resource = "*" },
      { Effect = "Allow", Action = ["sqs:ReceiveMessage", "sqs:DeleteMessage"], Resource = aws_sqs_queue.orders.arn },
    ]
  })
}

resource "aws_lambda_function" "charge" {
  function_name                  = "charge"
  filename                       = "bootstrap.zip"
  handler                        = "bootstrap"
  runtime                        = "provided.al2023"
  role                           = aws_iam_role.charge.arn
  timeout                        = var.timeout
  reserved_concurrent_executions = 5

  environment {
    variables = {
      SQS_ONCE_TABLE   = aws_dynamodb_table.keys.name
      SQS_ONCE_DLQ_URL = aws_sqs_queue.dead.arn
    }
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn = aws_sqs_queue.orders.arn
  function_name    = aws_lambda_function.charge.function_name

  dynamic "scaling_config" {
    for_each = [20]
    content {
      maximum_concurrency = scaling_config.value
    }
  }
}
