locals {
  environment = { SQS_ONCE_LARGE_MESSAGES_BUCKET = "bodies" }
  permissions = [{ actions = ["s3:GetObject"], resources = ["arn:aws:s3:::bodies/*"] }]
}
