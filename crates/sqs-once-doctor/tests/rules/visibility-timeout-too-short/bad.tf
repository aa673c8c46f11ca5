# finding: visibility-timeout-too-short aws_sqs_queue.orders
resource "aws_lambda_event_source_mapping" "orders" {
  maximum_batching_window_in_seconds = 5
}
