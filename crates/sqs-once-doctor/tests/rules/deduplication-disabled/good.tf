locals {
  environment = { SQS_ONCE_DISABLED = "false" }
}
