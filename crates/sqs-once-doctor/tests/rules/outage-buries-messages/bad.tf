# finding: outage-buries-messages aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  message_retention_seconds = 86400
}
