# finding: bucket-permission-missing aws_lambda_function.charge
locals {
  environment = { SQS_ONCE_LARGE_MESSAGES_BUCKET = "bodies" }
  permissions = [{ actions = ["s3:PutObject"], resources = ["arn:aws:s3:::bodies/*"] }]
}
