locals {
  environment = { SQS_ONCE_RETENTION = "22d" }
}
