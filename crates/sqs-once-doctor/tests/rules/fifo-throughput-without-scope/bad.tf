# finding: fifo-throughput-without-scope aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  name                  = "orders.fifo"
  fifo_queue            = true
  fifo_throughput_limit = "perMessageGroupId"
}

resource "aws_sqs_queue" "dead" {
  name       = "dead.fifo"
  fifo_queue = true
}
