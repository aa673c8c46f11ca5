resource "aws_sqs_queue" "orders" {
  message_retention_seconds = 86401
}
