# finding: fifo-batch-too-large aws_lambda_event_source_mapping.orders
resource "aws_sqs_queue" "orders" {
  name       = "orders.fifo"
  fifo_queue = true
}

resource "aws_sqs_queue" "dead" {
  name       = "dead.fifo"
  fifo_queue = true
}

resource "aws_lambda_event_source_mapping" "orders" {
  batch_size = 11
}
