variable "visibility" {
  type = number
}

resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = var.visibility
}
