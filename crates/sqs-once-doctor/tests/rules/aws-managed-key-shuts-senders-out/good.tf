resource "aws_kms_key" "orders" {
  description = "orders"
}

resource "aws_sqs_queue" "orders" {
  kms_master_key_id = aws_kms_key.orders.arn
}

resource "aws_sns_topic_subscription" "orders" {
  topic_arn = "arn:aws:sns:eu-central-1:111122223333:orders"
  protocol  = "sqs"
  endpoint  = aws_sqs_queue.orders.arn
}

locals {
  permissions = [{ actions = ["kms:Decrypt"], resources = [aws_kms_key.orders.arn] }]
}
