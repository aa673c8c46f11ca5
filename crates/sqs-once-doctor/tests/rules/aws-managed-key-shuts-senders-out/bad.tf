# finding: aws-managed-key-shuts-senders-out aws_sqs_queue.orders
resource "aws_sqs_queue" "orders" {
  kms_master_key_id = "alias/aws/sqs"
}

resource "aws_sns_topic_subscription" "orders" {
  topic_arn = "arn:aws:sns:eu-central-1:111122223333:orders"
  protocol  = "sqs"
  endpoint  = aws_sqs_queue.orders.arn
}
