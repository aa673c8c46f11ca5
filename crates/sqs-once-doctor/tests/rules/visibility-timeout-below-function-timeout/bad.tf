# finding: visibility-timeout-below-function-timeout aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 20
}
