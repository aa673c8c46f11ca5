resource "aws_lambda_function" "charge" {
  reserved_concurrent_executions = 5
}

resource "aws_lambda_event_source_mapping" "orders" {
  scaling_config { maximum_concurrency = 5 }
}
