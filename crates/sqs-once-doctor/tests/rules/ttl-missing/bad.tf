# finding: ttl-missing aws_dynamodb_table.keys
resource "aws_dynamodb_table" "keys" {
  dynamic "ttl" {
    for_each = []
    content {}
  }
}
