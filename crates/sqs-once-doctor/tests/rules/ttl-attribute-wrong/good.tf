# The application has a layout of its own.
resource "aws_dynamodb_table" "keys" {
  hash_key = "pk"

  attribute {
    name = "pk"
    type = "S"
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
}
