resource "aws_lambda_function" "charge" {
  reserved_concurrent_executions = 100
}

resource "aws_lambda_event_source_mapping" "orders" {
  provisioned_poller_config {
    minimum_pollers = 2
    maximum_pollers = 10
  }
}
