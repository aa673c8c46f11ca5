variable "timeout" {
  default = 30
}

resource "aws_lambda_function" "charge" {
  timeout = var.timeout
}
