resource "aws_sqs_queue" "orders" {
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 4 })
}
