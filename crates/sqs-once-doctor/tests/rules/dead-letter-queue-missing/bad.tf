# finding: dead-letter-queue-missing aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  redrive_policy = null
}
