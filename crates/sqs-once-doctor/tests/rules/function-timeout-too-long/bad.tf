# finding: function-timeout-too-long aws_lambda_function.charge
resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 5406
}

resource "aws_lambda_function" "charge" {
  timeout = 901
}
