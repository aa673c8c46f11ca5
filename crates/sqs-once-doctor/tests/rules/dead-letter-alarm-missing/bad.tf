# finding: dead-letter-alarm-missing aws_sqs_queue.dead
resource "aws_cloudwatch_metric_alarm" "dead" {
  count = 0
}
