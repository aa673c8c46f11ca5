# finding: password-in-environment aws_lambda_function.charge
locals {
  environment = { DATABASE_URL = "postgresql://orders:secret@db.example/orders" }
}
