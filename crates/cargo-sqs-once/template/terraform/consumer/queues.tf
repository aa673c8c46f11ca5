locals {
  suffix            = var.fifo ? ".fifo" : ""
  max_receive_count = coalesce(var.max_receive_count, var.fifo ? 20 : 5)
}

# Deleted with the deployment. Drain the queue first.
resource "aws_sqs_queue" "queue" {
  name       = "${var.name}${local.suffix}"
  fifo_queue = var.fifo
  # Message groups run in parallel, at thousands of messages a second.
  deduplication_scope        = var.fifo ? "messageGroup" : null
  fifo_throughput_limit      = var.fifo ? "perMessageGroupId" : null
  visibility_timeout_seconds = local.visibility_timeout_seconds
  message_retention_seconds  = var.retention_seconds
  # Encrypted with SQS's own key, which is free and needs no KMS permission.
  sqs_managed_sse_enabled = true
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead_letters.arn
    maxReceiveCount     = local.max_receive_count
  })
}

resource "aws_sqs_queue" "dead_letters" {
  name = "${var.name}-dead-letters${local.suffix}"
  # A FIFO queue needs a FIFO dead-letter queue.
  fifo_queue = var.fifo
  # SQS's maximum. The age of a redriven message counts from its first day in the source queue.
  message_retention_seconds = 1209600
  sqs_managed_sse_enabled   = true

  # Its messages were never processed. To delete the deployment, remove this block first.
  lifecycle {
    prevent_destroy = true
  }
}

# Only this queue may use it as its dead-letter queue.
resource "aws_sqs_queue_redrive_allow_policy" "dead_letters" {
  queue_url = aws_sqs_queue.dead_letters.url
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.queue.arn]
  })
}

resource "aws_sqs_queue_policy" "queues" {
  for_each  = { queue = aws_sqs_queue.queue, dead_letters = aws_sqs_queue.dead_letters }
  queue_url = each.value.url
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = concat(
      [{
        Sid = "OnlyOverTls"
        # SQS accepts requests over plain HTTP unless a policy denies them.
        Effect    = "Deny"
        Principal = "*"
        Action    = "sqs:*"
        Resource  = each.value.arn
        Condition = { Bool = { "aws:SecureTransport" = "false" } }
      }],
      # SNS also sends to the dead-letter queue: what it can't deliver to the queue.
      length(var.publisher_topic_arns) == 0 ? [] : [{
        Sid       = "ThisTopicDelivers"
        Effect    = "Allow"
        Principal = { Service = "sns.amazonaws.com" }
        Action    = "sqs:SendMessage"
        Resource  = each.value.arn
        Condition = { ArnEquals = { "aws:SourceArn" = var.publisher_topic_arns } }
      }]
    )
  })
}
