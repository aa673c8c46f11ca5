# finding: provisioned-with-maximum-concurrency aws_lambda_event_source_mapping.orders
resource "aws_lambda_event_source_mapping" "orders" {
  scaling_config { maximum_concurrency = 50 }
  provisioned_poller_config { maximum_pollers = 10 }
}
