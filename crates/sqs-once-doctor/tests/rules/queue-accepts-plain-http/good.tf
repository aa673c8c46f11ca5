# A resource of its own.
resource "aws_sqs_queue" "orders" {
  policy = null
}

resource "aws_sqs_queue_policy" "orders" {
  queue_url = aws_sqs_queue.orders.url
  policy    = data.aws_iam_policy_document.tls.json
}
