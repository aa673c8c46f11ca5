variable "user" {
  type = string
}

locals {
  environment = { DATABASE_URL = "postgresql://orders@db.example/orders?auth=iam", STAGING = "postgresql://${var.user}@db.example/orders" }
}
