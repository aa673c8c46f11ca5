variable "protected" {
  type = bool
}

resource "aws_dynamodb_table" "keys" {
  deletion_protection_enabled = var.protected
}
