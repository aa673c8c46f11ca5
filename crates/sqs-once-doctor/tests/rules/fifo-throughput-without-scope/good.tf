resource "aws_sqs_queue" "orders" {
  name                  = "orders.fifo"
  fifo_queue            = true
  fifo_throughput_limit = "perMessageGroupId"
  deduplication_scope   = "messageGroup"
}

resource "aws_sqs_queue" "dead" {
  name       = "dead.fifo"
  fifo_queue = true
}
