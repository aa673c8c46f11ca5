resource "aws_lambda_event_source_mapping" "orders" {
  provisioned_poller_config {
    minimum_pollers = 10
    maximum_pollers = 10
  }
}
