resource "aws_dynamodb_table" "idempotency" {
  count = local.has_table ? 1 : 0
  name  = "${var.name}-idempotency"
  # On demand, because the load follows the queue. An idle table costs only its storage.
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "id"
  # Prevents deletion by console or script until it is switched off.
  deletion_protection_enabled = true

  attribute {
    name = "id"
    type = "S"
  }

  # Deletes a key some time after it expired. The function does not rely on the deletion.
  ttl {
    attribute_name = "expiration"
    enabled        = true
  }

  # The table can be restored to any second of the last 35 days.
  point_in_time_recovery {
    enabled = true
  }

  # Without the table, messages that are in flight or sent again would be processed a second time. To delete the
  # deployment, remove this block first, and switch the deletion protection off.
  lifecycle {
    prevent_destroy = true
  }
}
