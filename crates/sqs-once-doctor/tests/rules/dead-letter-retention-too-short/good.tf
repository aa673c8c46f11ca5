resource "aws_sqs_queue" "dead" {
  message_retention_seconds = 432000
}
