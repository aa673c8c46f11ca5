variable "more" {
  type    = list(string)
  default = ["refunds"]
}

resource "aws_sqs_queue" "more" {
  for_each = toset(var.more)
  name     = each.value
}
