output "function_name" {
  description = "The function."
  value       = aws_lambda_function.function.function_name
}

output "queue_url" {
  description = "The queue."
  value       = aws_sqs_queue.queue.url
}

output "queue_arn" {
  description = "The queue, for subscriptions and permissions."
  value       = aws_sqs_queue.queue.arn
}

output "dead_letter_queue_url" {
  description = "The dead-letter queue."
  value       = aws_sqs_queue.dead_letters.url
}

output "dead_letter_queue_arn" {
  description = "The dead-letter queue, for subscriptions and permissions."
  value       = aws_sqs_queue.dead_letters.arn
}

output "table_name" {
  description = "The table with the completions of processed messages, or null for PostgreSQL."
  value       = one(aws_dynamodb_table.idempotency[*].name)
}
