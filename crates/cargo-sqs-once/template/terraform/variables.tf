variable "name" {
  type        = string
  default     = "{{ project_name }}"
  description = "The start of all names. Choose another for a second deployment in the same region."
}

variable "architecture" {
  type        = string
  default     = "arm64"
  description = "The processor the function runs on: arm64 or x86_64. The zip must be for the same."
}

variable "alarm_topic_arns" {
  type        = list(string)
  default     = []
  description = "SNS topics that the alarms notify. Empty for alarms that only the console shows. CloudWatch can't publish to a topic that alias/aws/sns encrypts."
}
{%- if effect == "postgres" %}

variable "database_host" {
  type        = string
  description = "The endpoint of the database in Amazon RDS or Aurora, as AWS names it; IAM authentication is enabled there."
}

variable "database_name" {
  type        = string
  description = "The database."
}

variable "database_user" {
  type        = string
  description = "The user, to whom rds_iam is granted. It has no password."
}

variable "database_resource_id" {
  type        = string
  description = "The resource id, db-… of an instance, cluster-… of an Aurora cluster, or prx-… of an RDS Proxy."

  validation {
    condition     = can(regex("^(db|cluster|prx)-[A-Za-z0-9]+$", var.database_resource_id))
    error_message = "A resource id begins with db-, cluster- or prx-."
  }
}

variable "subnet_ids" {
  type        = list(string)
  default     = []
  description = "The subnets of the database's network; empty if the function reaches the database without a VPC."
}

variable "security_group_ids" {
  type        = list(string)
  default     = []
  description = "The function's security groups in this network."
}
{%- endif %}
