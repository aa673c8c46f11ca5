# finding: poller-minimum-above-maximum aws_lambda_event_source_mapping.orders
resource "aws_lambda_event_source_mapping" "orders" {
  provisioned_poller_config {
    minimum_pollers = 20
    maximum_pollers = 10
  }
}
