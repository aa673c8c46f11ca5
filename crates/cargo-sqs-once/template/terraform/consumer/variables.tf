variable "name" {
  type        = string
  description = "Name of the queue and the function, and the start of the other names. Also the function's name in log lines and metrics."

  validation {
    # A queue's name, such as NAME-dead-letters.fifo, has up to 80 characters.
    condition     = can(regex("^[a-zA-Z0-9_-]{1,62}$", var.name))
    error_message = "A name has 1 to 62 letters, digits, hyphens and underscores."
  }
}

variable "description" {
  type        = string
  default     = ""
  description = "What the function does."
}

variable "zip_file" {
  type        = string
  description = "The zip that `cargo lambda build --release --output-format zip` writes: target/lambda/NAME/bootstrap.zip."

  validation {
    condition     = fileexists(var.zip_file)
    error_message = "There is no such file. Build it with `cargo lambda build --release --arm64 --output-format zip`."
  }
}

variable "architecture" {
  type = string
  # Graviton costs about a fifth less than x86-64 for the same duration.
  default     = "arm64"
  description = "The processor the function runs on: arm64 or x86_64. The zip must be for the same."

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "The architecture is arm64 or x86_64."
  }
}

variable "effect" {
  type        = string
  default     = "elsewhere"
  description = "Where a message takes effect. elsewhere: a call to a service. dynamodb: writes that commit with the key. postgres: a database that also keeps the keys, so that there is no table."

  validation {
    condition     = contains(["elsewhere", "dynamodb", "postgres"], var.effect)
    error_message = "The effect is elsewhere, dynamodb or postgres."
  }
}

# ---- The queue ------------------------------------------------------------------------------

variable "fifo" {
  type        = bool
  default     = false
  description = "Whether both queues are FIFO."
}

variable "batch_size" {
  type        = number
  default     = null
  description = "Messages in a batch, at most. By default 25, and 10 for a FIFO queue, which is its maximum."

  validation {
    condition     = var.batch_size == null ? true : var.batch_size >= 1 && var.batch_size <= 10000
    error_message = "A batch has 1 to 10000 messages."
  }
}

variable "batching_window_seconds" {
  type        = number
  default     = null
  description = "Seconds that Lambda waits to fill a batch. By default 1. A FIFO queue has no window."

  validation {
    condition     = var.batching_window_seconds == null ? true : var.batching_window_seconds >= 0 && var.batching_window_seconds <= 300
    error_message = "The window is 0 to 300 seconds."
  }
}

variable "maximum_concurrency" {
  type        = number
  default     = 10
  description = "Batches that the function processes at the same time, at most."

  validation {
    condition     = var.maximum_concurrency >= 2 && var.maximum_concurrency <= 1000
    error_message = "The maximum concurrency is 2 to 1000."
  }
}

variable "max_receive_count" {
  type = number
  # With fewer, a few throttled deliveries could move a valid message to the dead-letter queue. In a FIFO queue, the messages
  # that follow a failed one return untried, and each return is a delivery.
  default     = null
  description = "Deliveries after which SQS moves a message to the dead-letter queue. By default 5, and 20 for a FIFO queue."

  validation {
    condition     = coalesce(var.max_receive_count, 5) >= 1 && coalesce(var.max_receive_count, 5) <= 1000
    error_message = "The number of deliveries is 1 to 1000."
  }
}

variable "retention_seconds" {
  type = number
  # Four days to notice an outage. The age of a redriven message counts from its first day in the source queue.
  default     = 345600
  description = "Seconds that the queue keeps a message. The dead-letter queue keeps it for 14 days, so this is less."

  validation {
    condition     = var.retention_seconds >= 60 && var.retention_seconds < 1209600
    error_message = "The retention is at least 60 seconds, and less than the 1209600 of the dead-letter queue."
  }
}

variable "publisher_topic_arns" {
  type        = list(string)
  default     = []
  description = "SNS topics that may send to the queue, and their undeliverable messages to the dead-letter queue. Each needs a subscription."
}

# ---- The function ---------------------------------------------------------------------------

variable "timeout_seconds" {
  type        = number
  default     = 30
  description = "Seconds for a whole batch. The visibility timeout follows from it."

  validation {
    condition     = var.timeout_seconds >= 1 && var.timeout_seconds <= 900
    error_message = "A function runs for 1 to 900 seconds."
  }
}

variable "memory_mb" {
  type = number
  # Memory also determines CPU: with less, the TLS handshakes dominate a cold start.
  default     = 256
  description = "Memory in MB."

  validation {
    condition     = var.memory_mb >= 128 && var.memory_mb <= 10240
    error_message = "The memory is 128 to 10240 MB."
  }
}

variable "environment" {
  type        = map(string)
  default     = {}
  description = "Environment variables besides SQS_ONCE_SERVICE, SQS_ONCE_TABLE and SQS_ONCE_DLQ_URL."
}

variable "statements" {
  type = list(object({
    sid       = string
    actions   = list(string)
    resources = list(string)
  }))
  default     = []
  description = "What the function's role allows besides the queues, the idempotency table, logs and traces."
}

variable "layers" {
  type        = list(string)
  default     = []
  description = "The ARNs of the function's layers."
}

variable "subnet_ids" {
  type        = list(string)
  default     = []
  description = "The subnets of the function's network; empty for a function without a VPC."
}

variable "security_group_ids" {
  type        = list(string)
  default     = []
  description = "The function's security groups in this network."
}

# ---- Operation ------------------------------------------------------------------------------

variable "log_retention_days" {
  type = number
  # At least as long as duplicates are recognised (28 days).
  default     = 30
  description = "Days that CloudWatch keeps the function's logs, one of the numbers that it accepts."

  validation {
    condition = contains(
      [1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653],
      var.log_retention_days
    )
    error_message = "CloudWatch keeps logs for 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653 days."
  }
}

variable "oldest_message_alarm_seconds" {
  type        = number
  default     = null
  description = "Age of the oldest message, in seconds, above which an alarm rings. By default, the time of all deliveries and five minutes."
}

variable "alarm_topic_arns" {
  type        = list(string)
  default     = []
  description = "SNS topics that the alarms notify. Empty for alarms that only the console shows. CloudWatch can't publish to a topic that alias/aws/sns encrypts."
}
