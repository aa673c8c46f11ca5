resource "aws_kms_key" "orders" {
  policy = jsonencode({
    Statement = [{
      Effect    = "Allow"
      Principal = { AWS = "arn:aws:iam::111122223333:root" }
      Action    = "kms:*"
      Resource  = "*"
    }]
  })
}

resource "aws_kms_alias" "orders" {
  name          = "alias/orders"
  target_key_id = aws_kms_key.orders.key_id
}

resource "aws_sqs_queue" "orders" {
  name                       = "orders.fifo"
  fifo_queue                 = true
  fifo_throughput_limit      = "perMessageGroupId"
  visibility_timeout_seconds = 5406
  kms_master_key_id          = aws_kms_alias.orders.name
  policy                     = data.aws_iam_policy_document.orders.json
  redrive_policy = jsonencode({
    deadLetterTargetArn = "arn:aws:sqs:eu-central-1:111122223333:dead.fifo"
    maxReceiveCount     = 5
  })
}

resource "aws_iam_role" "charge" {
  assume_role_policy = jsonencode({})
}

resource "aws_iam_role_policy" "charge" {
  role = aws_iam_role.charge.name
  policy = jsonencode({
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        Resource = aws_sqs_queue.orders.arn
      },
      {
        Effect   = "Allow"
        Action   = ["dynamodb:UpdateItem", "dynamodb:BatchGetItem"]
        Resource = aws_dynamodb_table.keys.arn
      },
    ]
  })
}

resource "aws_lambda_function" "charge" {
  function_name                  = "charge"
  runtime                        = "provided.al2023"
  role                           = aws_iam_role.charge.arn
  timeout                        = 901
  reserved_concurrent_executions = 100

  environment {
    variables = { SQS_ONCE_TABLE = aws_dynamodb_table.keys.name }
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn        = aws_sqs_queue.orders.arn
  function_name           = aws_lambda_function.charge.function_name
  function_response_types = ["ReportBatchItemFailures"]

  filter_criteria {
    filter { pattern = jsonencode({ body = { kind = ["placed"] } }) }
  }

  provisioned_poller_config { maximum_pollers = 11 }
}

resource "aws_dynamodb_table" "keys" {
  name                        = "keys"
  hash_key                    = "id"
  deletion_protection_enabled = true

  ttl {
    attribute_name = "expiration"
    enabled        = true
  }

  dynamic "replica" {
    for_each = ["eu-west-1", "eu-west-2"]
    content {
      region_name      = replica.value
      consistency_mode = "STRONG"
    }
  }
}

resource "aws_lambda_function" "ship" {
  function_name = "ship"
  runtime       = "provided.al2023"
  role          = "arn:aws:iam::111122223333:role/ship"
  timeout       = 30
}

resource "aws_sqs_queue" "parcels" {
  visibility_timeout_seconds = 180
  policy                     = data.aws_iam_policy_document.orders.json
  redrive_policy = jsonencode({
    deadLetterTargetArn = "arn:aws:sqs:eu-central-1:444455556666:dead"
    maxReceiveCount     = 5
  })
}

resource "aws_lambda_event_source_mapping" "parcels" {
  event_source_arn        = aws_sqs_queue.parcels.arn
  function_name           = aws_lambda_function.ship.function_name
  function_response_types = ["ReportBatchItemFailures"]
  scaling_config { maximum_concurrency = 5 }
  provisioned_poller_config { minimum_pollers = 300 }
}

resource "aws_lambda_event_source_mapping" "theirs" {
  event_source_arn        = "arn:aws:sqs:eu-central-1:444455556666:parcels"
  function_name           = aws_lambda_function.ship.function_name
  function_response_types = ["ReportBatchItemFailures"]
}
