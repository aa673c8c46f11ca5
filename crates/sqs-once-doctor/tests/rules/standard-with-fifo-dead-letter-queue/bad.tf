# finding: standard-with-fifo-dead-letter-queue aws_sqs_queue.orders
resource "aws_sqs_queue" "dead" {
  name       = "dead.fifo"
  fifo_queue = true
}
