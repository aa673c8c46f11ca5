# Each of these is known only to Terraform, or to AWS.
variable "queues" {
  type = map(string)
}

variable "table" {
  type = string
}

variable "dlq_url" {
  type = string
}

module "queue" {
  source  = "terraform-aws-modules/sqs/aws"
  version = "4.2.1"
  name    = "orders"
}

resource "aws_sqs_queue" "more" {
  for_each = var.queues
  name     = each.value
}

resource "aws_lambda_function" "charge" {
  function_name = "charge"
  runtime       = "provided.al2023"
  role          = "arn:aws:iam::123456789012:role/charge"
  timeout       = 30

  environment {
    variables = { SQS_ONCE_TABLE = var.table, SQS_ONCE_DLQ_URL = var.dlq_url }
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn        = module.queue.queue_arn
  function_name           = aws_lambda_function.charge.arn
  function_response_types = ["ReportBatchItemFailures"]
}

resource "aws_sns_topic_subscription" "orders" {
  topic_arn = "arn:aws:sns:eu-central-1:123456789012:orders"
  protocol  = "sqs"
  endpoint  = module.queue.queue_arn
}

resource "aws_s3_bucket_notification" "orders" {
  bucket = "orders"
  queue {
    queue_arn = module.queue.queue_arn
    events    = ["s3:ObjectCreated:*"]
  }
}

variable "invocation_type" {
  type = string
}

resource "aws_pipes_pipe" "orders" {
  role_arn = "arn:aws:iam::123456789012:role/pipe"
  source   = module.queue.queue_arn
  target   = aws_lambda_function.charge.arn

  target_parameters {
    lambda_function_parameters {
      invocation_type = var.invocation_type
    }
  }
}
