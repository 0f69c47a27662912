# Curfew as a CloudFormation stack: the template of a release decides what is in it, Terraform when it changes.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.0" }
  }
}

# Named, because the error about a bucket in another region would come from Lambda, minutes later.
data "aws_s3_bucket" "release" {
  bucket = var.bucket
}

resource "aws_cloudformation_stack" "curfew" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.release.bucket_regional_domain_name}/curfew/${var.curfew_version}/curfew.json"
  parameters   = merge(var.parameters, { ArtifactBucket = var.bucket })
  # Jobs find their instance profile by its name.
  capabilities = ["CAPABILITY_NAMED_IAM"]
  tags         = var.tags
}
