variable "ttl" {
  type = bool
}

resource "aws_dynamodb_table" "keys" {
  ttl {
    attribute_name = "expiration"
    enabled        = var.ttl
  }
}
