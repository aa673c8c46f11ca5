# finding: reserved-concurrency-without-maximum aws_lambda_function.charge
resource "aws_lambda_function" "charge" {
  reserved_concurrent_executions = 5
}
