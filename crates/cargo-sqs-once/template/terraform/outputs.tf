output "function_name" {
  description = "The function."
  value       = module.consumer.function_name
}
{%- if source == "sns" %}

output "topic_arn" {
  description = "The topic to publish orders to."
  value       = aws_sns_topic.orders.arn
}
{%- elsif source == "bus" %}

output "event_bus_arn" {
  description = "The event bus to publish orders to."
  value       = awscc_eventsv2_event_bus.orders.event_bus_arn
}
{%- endif %}

output "queue_url" {
  description = "The queue of orders."
  value       = module.consumer.queue_url
}

output "dead_letter_queue_url" {
  description = "The dead-letter queue."
  value       = module.consumer.dead_letter_queue_url
}
{%- if effect != "postgres" %}

output "table_name" {
  description = "The table with the completions of processed orders."
  value       = module.consumer.table_name
}
{%- endif %}
