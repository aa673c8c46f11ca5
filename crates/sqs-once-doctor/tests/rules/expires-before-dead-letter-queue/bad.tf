# finding: expires-before-dead-letter-queue aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  message_retention_seconds = 900
}
