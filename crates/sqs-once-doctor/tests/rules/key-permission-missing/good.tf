resource "aws_kms_key" "orders" {
  description = "orders"
}

resource "aws_kms_alias" "orders" {
  name          = "alias/orders"
  target_key_id = aws_kms_key.orders.key_id
}

resource "aws_sqs_queue" "orders" {
  kms_master_key_id = aws_kms_alias.orders.name
}

locals {
  permissions = [{ actions = ["kms:Decrypt"], resources = [aws_kms_key.orders.arn] }]
}
