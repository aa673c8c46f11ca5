# References go through variables, locals and a module, and names are computed.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "name" {
  type = string
}

variable "alarm_topic_arn" {
  type    = string
  default = null
}

data "aws_caller_identity" "current" {}

locals {
  full_name = "${var.name}-${terraform.workspace}"
  tags      = merge({ service = local.full_name }, {})
}

resource "aws_dynamodb_table" "keys" {
  name                        = "${local.full_name}-keys"
  billing_mode                = "PAY_PER_REQUEST"
  hash_key                    = "id"
  deletion_protection_enabled = true

  attribute {
    name = "id"
    type = "S"
  }

  ttl {
    attribute_name = "expiration"
    enabled        = true
  }
}

module "consumer" {
  source = "./consumer"

  name     = local.full_name
  table    = { arn = aws_dynamodb_table.keys.arn, name = aws_dynamodb_table.keys.name }
  timeout  = 30
  settings = { batch_size = 25 }
  extra    = [{ actions = ["s3:GetObject"], resources = ["arn:aws:s3:::orders-${data.aws_caller_identity.current.account_id}/*"] }]
}

resource "aws_cloudwatch_metric_alarm" "dead" {
  alarm_name          = "${local.full_name}-dead"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = module.consumer.dead_letter_queue_name }
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  evaluation_periods  = 1
  alarm_actions       = var.alarm_topic_arn == null ? [] : [var.alarm_topic_arn]
}
