resource "aws_sqs_queue" "orders" {
  kms_master_key_id = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
}

locals {
  permissions = [{ actions = ["kms:Decrypt"], resources = ["arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"] }]
}
