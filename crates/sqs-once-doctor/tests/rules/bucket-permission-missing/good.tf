locals {
  environment = { SQS_ONCE_LARGE_MESSAGES = "arn:aws:sqs:eu-central-1:123456789012:orders=bodies/orders/*" }
  permissions = [{ actions = ["s3:GetObject"], resources = ["arn:aws:s3:::bodies/orders/*"] }]
}
