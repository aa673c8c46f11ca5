# finding: queue-accepts-plain-http aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  policy = null
}
