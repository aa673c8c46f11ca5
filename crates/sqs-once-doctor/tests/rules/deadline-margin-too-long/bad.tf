# finding: deadline-margin-too-long aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_DEADLINE_MARGIN = "30s" }
}
