# finding: deduplication-retention-too-short aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_RETENTION = "21d" }
}
