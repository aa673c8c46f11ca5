# finding: partial-batch-response-missing aws_lambda_event_source_mapping.orders
resource "aws_lambda_event_source_mapping" "orders" {
  function_response_types = []
}
