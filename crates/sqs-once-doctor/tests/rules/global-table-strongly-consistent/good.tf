resource "aws_dynamodb_table" "keys" {
  dynamic "replica" {
    for_each = ["eu-west-1", "eu-west-2"]
    content {
      region_name      = replica.value
      consistency_mode = "EVENTUAL"
    }
  }
}
