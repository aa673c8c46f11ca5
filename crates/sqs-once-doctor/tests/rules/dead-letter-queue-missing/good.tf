variable "redrive_policy" {
  type = string
}

resource "aws_sqs_queue" "orders" {
  redrive_policy = var.redrive_policy
}
