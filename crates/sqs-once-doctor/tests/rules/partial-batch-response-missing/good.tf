variable "types" {
  type = list(string)
}

resource "aws_lambda_event_source_mapping" "orders" {
  function_response_types = var.types
}
