resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 18000
  message_retention_seconds  = 90001
}
