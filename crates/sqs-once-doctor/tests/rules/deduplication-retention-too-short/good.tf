locals {
  environment = { SQS_ONCE_RETENTION = "18d" }
}
