terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
{%- if source == "bus" %}
    # The provider aws lacks the custom event bus.
    awscc = {
      source  = "hashicorp/awscc"
      version = "~> 1.104"
    }
{%- endif %}
{%- if effect == "postgres" %}
    archive = {
      source  = "hashicorp/archive"
      version = "~> 2.4"
    }
{%- endif %}
  }
}

# Region and credentials come from the environment, as for the AWS CLI: AWS_REGION, AWS_PROFILE.
provider "aws" {}
{%- if source == "bus" %}
provider "awscc" {}
{%- endif %}
