# finding: filter-deletes-messages aws_lambda_event_source_mapping.orders
resource "aws_lambda_event_source_mapping" "orders" {
  filter_criteria {
    filter { pattern = jsonencode({ body = { kind = ["placed"] } }) }
  }
}
