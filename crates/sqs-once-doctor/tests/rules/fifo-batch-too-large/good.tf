resource "aws_sqs_queue" "orders" {
  name       = "orders.fifo"
  fifo_queue = true
}

resource "aws_sqs_queue" "dead" {
  name       = "dead.fifo"
  fifo_queue = true
}

resource "aws_lambda_event_source_mapping" "orders" {
  batch_size = 10
}
