# finding: dead-letter-alarm-wrong-metric aws_cloudwatch_metric_alarm.dead
resource "aws_cloudwatch_metric_alarm" "dead" {
  metric_name = "NumberOfMessagesSent"
}
