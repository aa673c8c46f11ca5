locals {
  environment = { SQS_ONCE_DLQ_URL = aws_sqs_queue.dead.url }
  permissions = [{ actions = ["sqs:SendMessage"], resources = [aws_sqs_queue.dead.arn] }]
}
