# Whatever queue it is.
variable "watched" {
  type = string
}

resource "aws_cloudwatch_metric_alarm" "dead" {
  dimensions = { QueueName = var.watched }
}
