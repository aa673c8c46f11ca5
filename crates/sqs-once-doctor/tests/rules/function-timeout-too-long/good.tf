resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 32400
}

resource "aws_lambda_function" "charge" {
  timeout = 5400

  capacity_provider_config {
    lambda_managed_instances_capacity_provider_config {
      capacity_provider_arn = "arn:aws:lambda:eu-central-1:111122223333:capacity-provider:orders"
    }
  }
}
