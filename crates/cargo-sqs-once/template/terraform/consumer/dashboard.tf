resource "aws_cloudwatch_dashboard" "consumer" {
  dashboard_name = var.name
  dashboard_body = jsonencode({
    widgets = [
      {
        type = "metric", width = 12, height = 6, x = 0, y = 0
        properties = {
          title = "Messages", region = data.aws_region.current.region, stat = "Sum", period = 60, stacked = true
          metrics = [
            [local.metrics_namespace, "Processed", "service", var.name],
            [".", "Duplicates", ".", "."],
            [".", "InProgressConflicts", ".", "."],
            [".", "Failed", ".", "."],
            [".", "Terminal", ".", "."],
          ]
        }
      },
      {
        type = "metric", width = 12, height = 6, x = 12, y = 0
        properties = {
          title = "Duplicates, and how often messages were delivered", region = data.aws_region.current.region, period = 300
          metrics = [
            [{ expression = "100 * duplicates / received", label = "Duplicates in percent", id = "percent" }],
            [local.metrics_namespace, "Duplicates", "service", var.name, { stat = "Sum", id = "duplicates", visible = false }],
            [".", "RecordsReceived", ".", ".", { stat = "Sum", id = "received", visible = false }],
            [".", "ReceiveCount", ".", ".", { stat = "Maximum", yAxis = "right", label = "Deliveries, at most" }],
          ]
        }
      },
      {
        type = "metric", width = 12, height = 6, x = 0, y = 6
        properties = {
          title = "What should not happen", region = data.aws_region.current.region, stat = "Sum", period = 60
          metrics = [
            [local.metrics_namespace, "LeaseLost", "service", var.name],
            [".", "PayloadMismatch", ".", "."],
            [".", "Undecodable", ".", "."],
            [".", "DeadlineHits", ".", "."],
            [".", "StillRunning", ".", "."],
            [".", "StoreErrors", ".", "."],
            ["AWS/Lambda", "Errors", "FunctionName", aws_lambda_function.function.function_name],
            [".", "Throttles", ".", "."],
          ]
        }
      },
      {
        type = "metric", width = 12, height = 6, x = 12, y = 6
        properties = {
          title = "Queues", region = data.aws_region.current.region, stat = "Maximum", period = 60
          metrics = [
            ["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", aws_sqs_queue.queue.name, { label = "Waiting" }],
            ["...", aws_sqs_queue.dead_letters.name, { label = "Dead letters" }],
            [".", "ApproximateAgeOfOldestMessage", ".", aws_sqs_queue.queue.name, { label = "Oldest, in seconds", yAxis = "right" }],
          ]
        }
      },
      {
        type = "metric", width = 12, height = 6, x = 0, y = 12
        properties = {
          title = "Time", region = data.aws_region.current.region, period = 60
          metrics = [
            [local.metrics_namespace, "MessageAge", "service", var.name, { stat = "p99" }],
            [".", "HandlerDuration", ".", ".", { stat = "p50" }],
            ["...", { stat = "p99" }],
            [".", "BatchDuration", ".", ".", { stat = "p99" }],
          ]
        }
      },
      {
        type = "metric", width = 12, height = 6, x = 12, y = 12
        properties = {
          title = "The store and the function", region = data.aws_region.current.region, stat = "Sum", period = 60
          metrics = [
            [local.metrics_namespace, "StoreRequests", "service", var.name],
            [".", "ColdStart", ".", "."],
            ["AWS/Lambda", "ConcurrentExecutions", "FunctionName", aws_lambda_function.function.function_name, { stat = "Maximum" }],
          ]
        }
      },
      {
        type = "metric", width = 24, height = 6, x = 0, y = 18
        properties = {
          title = "Unavailable dependencies", region = data.aws_region.current.region, stat = "Sum", period = 60
          metrics = [
            [local.metrics_namespace, "Deferred", "service", var.name],
            [".", "BreakerOpened", ".", "."],
            ["AWS/SQS", "ApproximateNumberOfMessagesNotVisible", "QueueName", aws_sqs_queue.queue.name, { stat = "Maximum", yAxis = "right", label = "In flight" }],
          ]
        }
      },
      {
        type = "log", width = 24, height = 6, x = 0, y = 24
        properties = {
          title = "Messages that failed", region = data.aws_region.current.region, view = "table"
          query = "SOURCE '${aws_cloudwatch_log_group.function.name}' | fields @timestamp, outcome, code, reason, key, message_id, receive_count | filter outcome in ['failed', 'terminal'] | sort @timestamp desc | limit 50"
        }
      },
    ]
  })
}
