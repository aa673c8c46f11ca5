# finding: deduplication-disabled aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_DISABLED = "true" }
}
