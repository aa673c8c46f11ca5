# finding: variable-unknown aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_TABEL = "keys" }
}
