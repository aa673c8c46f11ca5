# finding: global-table-strongly-consistent aws_dynamodb_table.keys
resource "aws_dynamodb_table" "keys" {
  dynamic "ttl" {
    for_each = []
    content {}
  }

  dynamic "replica" {
    for_each = ["eu-west-1", "eu-west-2"]
    content {
      region_name      = replica.value
      consistency_mode = "STRONG"
    }
  }
}
