# finding: permission-missing aws_lambda_function.charge
resource "aws_iam_role_policy" "charge" {
  policy = jsonencode({
    Statement = [
      {
        Effect   = "Allow"
        Action   = ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"]
        Resource = aws_sqs_queue.orders.arn
      },
      {
        Effect   = "Allow"
        Action   = ["dynamodb:PutItem", "dynamodb:UpdateItem"]
        Resource = aws_dynamodb_table.keys.arn
      },
    ]
  })
}
