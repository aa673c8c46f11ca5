# finding: dead-letter-retention-too-short aws_sqs_queue.dead
resource "aws_sqs_queue" "dead" {
  message_retention_seconds = 345600
}
