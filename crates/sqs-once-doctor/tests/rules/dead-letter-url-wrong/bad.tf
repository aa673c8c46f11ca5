# finding: dead-letter-url-wrong aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_DLQ_URL = aws_sqs_queue.orders.url }
  permissions = [{ actions = ["sqs:SendMessage"], resources = [aws_sqs_queue.orders.arn] }]
}
