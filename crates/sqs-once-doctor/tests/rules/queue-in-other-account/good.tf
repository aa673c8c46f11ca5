resource "aws_lambda_event_source_mapping" "theirs" {
  event_source_arn        = "arn:aws:sqs:eu-central-1:111122223333:parcels"
  function_name           = aws_lambda_function.charge.function_name
  function_response_types = ["ReportBatchItemFailures"]
}

resource "aws_lambda_function" "charge" {
  role = "arn:aws:iam::111122223333:role/charge"
}
