locals {
  # CloudWatch's namespace of the function's metrics.
  metrics_namespace = lookup(var.environment, "POWERTOOLS_METRICS_NAMESPACE", "sqs-once")
  # All deliveries of one message, with five minutes to spare, in whole minutes. A single failing message of a FIFO queue
  # raises no alarm.
  oldest_message_seconds = 60 * floor((local.visibility_timeout_seconds * local.max_receive_count + 300) / 60)
  # Longer than the visibility timeout, so every failing message is delivered in each period. With the defaults, two periods
  # are shorter than all deliveries of a message.
  failures_period_seconds = 300 * floor(local.visibility_timeout_seconds / 300 + 1)
}

resource "aws_cloudwatch_metric_alarm" "dead_letters" {
  alarm_name        = "${var.name}-dead-letters"
  alarm_description = "Messages are in the dead-letter queue. Find the reason in the logs, fix it, and redrive the queue."
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateNumberOfMessagesVisible"
  dimensions        = { QueueName = aws_sqs_queue.dead_letters.name }
  # A single message in the dead-letter queue raises the alarm.
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  period              = 60
  evaluation_periods  = 1
  # An idle queue reports no metrics after six hours.
  treat_missing_data = "notBreaching"
  alarm_actions      = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "oldest_message" {
  alarm_name        = "${var.name}-oldest-message"
  alarm_description = "Messages wait too long. The function is throttled or too slow."
  namespace         = "AWS/SQS"
  metric_name       = "ApproximateAgeOfOldestMessage"
  dimensions        = { QueueName = aws_sqs_queue.queue.name }
  # A standard queue does not count a message that it has delivered three times. The alarm `everything_fails` watches
  # failing messages.
  statistic           = "Maximum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = coalesce(var.oldest_message_alarm_seconds, local.oldest_message_seconds)
  period              = 60
  evaluation_periods  = 5
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "throttles" {
  alarm_name          = "${var.name}-throttles"
  alarm_description   = "The account has no concurrency left. Throttled deliveries count towards the dead-letter queue."
  namespace           = "AWS/Lambda"
  metric_name         = "Throttles"
  dimensions          = { FunctionName = aws_lambda_function.function.function_name }
  statistic           = "Sum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  # Five minutes in a row, because SQS redelivers a short burst after the visibility timeout.
  period             = 60
  evaluation_periods = 5
  treat_missing_data = "notBreaching"
  alarm_actions      = var.alarm_topic_arns
}

# ---- The metrics that sqs-once reports ------------------------------------------------------

resource "aws_cloudwatch_metric_alarm" "everything_fails" {
  alarm_name          = "${var.name}-everything-fails"
  alarm_description   = "Every message fails. Read the reasons in the logs. After ${local.max_receive_count} deliveries, SQS moves a message to the dead-letter queue."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 99
  evaluation_periods  = 2
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns

  metric_query {
    id = "percent"
    # In an idle queue this has no value, because CloudWatch omits a division by zero. It counts a missing metric as 0.
    expression  = "100 * (failed + terminal + errors) / (processed + failed + terminal + errors)"
    label       = "Failures in percent"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = { processed = "Processed", failed = "Failed", terminal = "Terminal" }
    content {
      id = metric_query.key
      metric {
        namespace   = local.metrics_namespace
        metric_name = metric_query.value
        dimensions  = { service = var.name }
        period      = local.failures_period_seconds
        stat        = "Sum"
      }
    }
  }

  # A process that crashes or times out writes none of the metrics above.
  metric_query {
    id = "errors"
    metric {
      namespace   = "AWS/Lambda"
      metric_name = "Errors"
      dimensions  = { FunctionName = aws_lambda_function.function.function_name }
      period      = local.failures_period_seconds
      stat        = "Sum"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "duplicates" {
  alarm_name          = "${var.name}-duplicates"
  alarm_description   = "More than a tenth of the messages are duplicates. They had no effect, but a producer sends events twice, or messages become visible again while they are processed."
  comparison_operator = "GreaterThanThreshold"
  threshold           = 10
  # Ignores a producer that sends everything twice for a short time, for example after a deployment.
  evaluation_periods = 3
  treat_missing_data = "notBreaching"
  alarm_actions      = var.alarm_topic_arns

  metric_query {
    id = "percent"
    # A few messages in a quiet hour give no meaningful rate.
    expression  = "IF(received >= 10, 100 * duplicates / received, 0)"
    label       = "Duplicates in percent"
    return_data = true
  }

  metric_query {
    id = "duplicates"
    metric {
      namespace   = local.metrics_namespace
      metric_name = "Duplicates"
      dimensions  = { service = var.name }
      period      = 300
      stat        = "Sum"
    }
  }

  metric_query {
    id = "received"
    metric {
      namespace   = local.metrics_namespace
      metric_name = "RecordsReceived"
      dimensions  = { service = var.name }
      period      = 300
      stat        = "Sum"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "lease_lost" {
  # Without leases, none can be lost.
  count               = var.effect == "elsewhere" ? 1 : 0
  alarm_name          = "${var.name}-lease-lost"
  alarm_description   = "Processing a message took longer than its lease, and another function instance took over. The effect may have happened twice."
  namespace           = local.metrics_namespace
  metric_name         = "LeaseLost"
  dimensions          = { service = var.name }
  statistic           = "Sum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  period              = 60
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "payload_mismatch" {
  alarm_name          = "${var.name}-payload-mismatch"
  alarm_description   = "Two different messages had the same business key, and the second is a dead letter. Its reason names what you can do. Either the key identifies too little, or a producer reuses it."
  namespace           = local.metrics_namespace
  metric_name         = "PayloadMismatch"
  dimensions          = { service = var.name }
  statistic           = "Sum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  period              = 60
  evaluation_periods  = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "store_errors" {
  alarm_name          = "${var.name}-store-errors"
  alarm_description   = "The ${local.has_table ? "idempotency table" : "database"} does not answer. Messages wait in the queue, and become dead letters after ${local.max_receive_count} deliveries."
  namespace           = local.metrics_namespace
  metric_name         = "StoreErrors"
  dimensions          = { service = var.name }
  statistic           = "Sum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  # The next delivery makes up for a minute of throttling. The three minutes need not be in a row: on a quiet queue, the
  # function uses the store only when a message returns, after the visibility timeout.
  period              = 60
  evaluation_periods  = max(15, ceil(local.visibility_timeout_seconds * 3 / 60))
  datapoints_to_alarm = min(3, local.max_receive_count)
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}

resource "aws_cloudwatch_metric_alarm" "dependency_unavailable" {
  alarm_name          = "${var.name}-dependency-unavailable"
  alarm_description   = "A service that the function depends on is unavailable. Messages wait in the queue. The log names the service."
  namespace           = local.metrics_namespace
  metric_name         = "BreakerOpened"
  dimensions          = { service = var.name }
  statistic           = "Sum"
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  # A failed probe also counts. One alarm covers the probes of an outage, up to ten minutes apart.
  period              = 300
  evaluation_periods  = 3
  datapoints_to_alarm = 1
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
}
