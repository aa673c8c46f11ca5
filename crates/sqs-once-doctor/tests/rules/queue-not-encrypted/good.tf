resource "aws_kms_key" "orders" {
  description = "orders"
}

resource "aws_sqs_queue" "orders" {
  sqs_managed_sse_enabled = false
  kms_master_key_id       = aws_kms_key.orders.arn
}

locals {
  permissions = [{ actions = ["kms:Decrypt"], resources = [aws_kms_key.orders.arn] }]
}
