# finding: part-not-examined aws_sqs_queue.more
variable "more" {
  type = list(string)
}

resource "aws_sqs_queue" "more" {
  for_each = toset(var.more)
  name     = each.value
}
