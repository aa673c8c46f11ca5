# finding: table-not-protected aws_dynamodb_table.keys
resource "aws_dynamodb_table" "keys" {
  deletion_protection_enabled = false
}
