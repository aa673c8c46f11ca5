locals {
  environment = { SQS_ONCE_DEADLINE_MARGIN = "29s" }
}
