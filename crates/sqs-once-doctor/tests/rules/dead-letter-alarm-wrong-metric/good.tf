resource "aws_cloudwatch_metric_alarm" "dead" {
  metric_name = "ApproximateAgeOfOldestMessage"
}
