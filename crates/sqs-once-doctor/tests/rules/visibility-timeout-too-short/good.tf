resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 185
}

resource "aws_lambda_event_source_mapping" "orders" {
  maximum_batching_window_in_seconds = 5
}
