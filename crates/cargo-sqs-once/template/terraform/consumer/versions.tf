terraform {
  # OpenTofu began as a copy of Terraform 1.5.
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source = "hashicorp/aws"
      # In version 6, the data source aws_region has the attribute region.
      version = "~> 6.0"
    }
  }
}
