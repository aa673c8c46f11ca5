# No block is made.
resource "aws_lambda_event_source_mapping" "orders" {
  dynamic "filter_criteria" {
    for_each = []
    content {
      filter { pattern = filter_criteria.value }
    }
  }
}
