# finding: fifo-with-standard-dead-letter-queue aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  name       = "orders.fifo"
  fifo_queue = true
}
