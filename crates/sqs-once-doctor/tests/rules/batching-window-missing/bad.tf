# finding: batching-window-missing aws_lambda_event_source_mapping.orders
resource "aws_lambda_event_source_mapping" "orders" {
  batch_size = 25
}
