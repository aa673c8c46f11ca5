resource "aws_lambda_event_source_mapping" "orders" {
  provisioned_poller_config { maximum_pollers = 10 }
}
