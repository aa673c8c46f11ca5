resource "aws_sqs_queue" "orders" {
  redrive_policy = jsonencode({
    deadLetterTargetArn = "arn:aws:sqs:eu-central-1:111122223333:orders-dead"
    maxReceiveCount     = 5
  })
}

resource "aws_lambda_function" "charge" {
  role = "arn:aws:iam::111122223333:role/charge"
}
