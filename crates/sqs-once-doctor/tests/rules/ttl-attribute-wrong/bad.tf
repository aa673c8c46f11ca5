# finding: ttl-attribute-wrong aws_dynamodb_table.keys
resource "aws_dynamodb_table" "keys" {
  ttl {
    attribute_name = "ttl"
    enabled        = true
  }
}
