# finding: function-timeout-missing aws_lambda_function.charge
resource "aws_lambda_function" "charge" {
  timeout = null
}
