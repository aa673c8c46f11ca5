# finding: queue-not-encrypted aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  sqs_managed_sse_enabled = false
}
