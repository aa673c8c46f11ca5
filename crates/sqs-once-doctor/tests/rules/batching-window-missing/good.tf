resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 181
}

resource "aws_lambda_event_source_mapping" "orders" {
  batch_size                         = 25
  maximum_batching_window_in_seconds = 1
}
