# What the aws provider has for buckets and objects, as far as the gateway serves it.
terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

variable "endpoint" {
  type = string
}

variable "prefix" {
  type = string
}

variable "owner" {
  type    = string
  default = "masons"
}

provider "aws" {
  region                  = "us-east-1"
  s3_use_path_style       = true
  skip_metadata_api_check = true

  endpoints {
    s3  = var.endpoint
    sts = var.endpoint
  }
}

resource "aws_s3_bucket" "plain" {
  bucket = "${var.prefix}-plain"
}

resource "aws_s3_bucket" "full" {
  bucket        = "${var.prefix}-full"
  force_destroy = true
  tags = {
    owner = var.owner
    stage = "tést"
  }
}

resource "aws_s3_bucket_ownership_controls" "full" {
  bucket = aws_s3_bucket.full.id

  rule {
    object_ownership = "BucketOwnerPreferred"
  }
}

resource "aws_s3_bucket_public_access_block" "full" {
  bucket                  = aws_s3_bucket.full.id
  block_public_acls       = false
  block_public_policy     = false
  ignore_public_acls      = false
  restrict_public_buckets = false
}

resource "aws_s3_bucket_acl" "full" {
  depends_on = [aws_s3_bucket_ownership_controls.full, aws_s3_bucket_public_access_block.full]
  bucket     = aws_s3_bucket.full.id
  acl        = "public-read"
}

data "aws_iam_policy_document" "open" {
  statement {
    sid       = "Read"
    actions   = ["s3:GetObject", "s3:ListBucket"]
    resources = [aws_s3_bucket.full.arn, "${aws_s3_bucket.full.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "IpAddress"
      variable = "aws:SourceIp"
      values   = ["127.0.0.1/32"]
    }
  }
}

resource "aws_s3_bucket_policy" "full" {
  depends_on = [aws_s3_bucket_public_access_block.full]
  bucket     = aws_s3_bucket.full.id
  policy     = data.aws_iam_policy_document.open.json
}

resource "aws_s3_bucket_cors_configuration" "full" {
  bucket = aws_s3_bucket.full.id

  cors_rule {
    id              = "site"
    allowed_headers = ["*"]
    allowed_methods = ["PUT", "POST"]
    allowed_origins = ["https://example.com"]
    expose_headers  = ["ETag"]
    max_age_seconds = 3000
  }

  cors_rule {
    allowed_methods = ["GET"]
    allowed_origins = ["*"]
  }
}

resource "aws_s3_object" "one" {
  bucket        = aws_s3_bucket.full.id
  key           = "a/one ü+.txt"
  content       = "hewn by ${var.owner}"
  content_type  = "text/plain"
  cache_control = "max-age=60"
  metadata      = { quarry = "north" }
  tags          = { kind = "stone" }
}

resource "aws_s3_object" "file" {
  depends_on         = [aws_s3_bucket_acl.full]
  bucket             = aws_s3_bucket.full.id
  key                = "large.bin"
  source             = "${path.module}/large.bin"
  source_hash        = filemd5("${path.module}/large.bin")
  checksum_algorithm = "SHA256"
  acl                = "public-read"
}

resource "aws_s3_object_copy" "kept" {
  bucket = aws_s3_bucket.full.id
  key    = "copies/kept.txt"
  source = "${aws_s3_bucket.full.id}/${aws_s3_object.one.key}"
  tags   = { kind = "stone" }
}

resource "aws_s3_object_copy" "changed" {
  bucket             = aws_s3_bucket.full.id
  key                = "copies/changed.txt"
  source             = "${aws_s3_bucket.full.id}/${aws_s3_object.one.key}"
  content_type       = "text/csv"
  metadata           = { quarry = "south" }
  metadata_directive = "REPLACE"
  tags               = { kind = "copy" }
  tagging_directive  = "REPLACE"
}

data "aws_s3_bucket" "full" {
  bucket = aws_s3_bucket.full.id
}

data "aws_s3_bucket_policy" "full" {
  bucket     = aws_s3_bucket.full.id
  depends_on = [aws_s3_bucket_policy.full]
}

data "aws_s3_object" "one" {
  bucket = aws_s3_object.one.bucket
  key    = aws_s3_object.one.key
}

data "aws_s3_objects" "all" {
  bucket     = aws_s3_bucket.full.id
  depends_on = [aws_s3_object.file, aws_s3_object_copy.kept, aws_s3_object_copy.changed]
}

data "aws_canonical_user_id" "me" {}

data "aws_caller_identity" "me" {}

output "body" {
  value = data.aws_s3_object.one.body
}

output "keys" {
  value = data.aws_s3_objects.all.keys
}

output "policy" {
  value = data.aws_s3_bucket_policy.full.policy
}

output "region" {
  value = data.aws_s3_bucket.full.region
}

output "caller" {
  value = data.aws_caller_identity.me.arn
}

output "user" {
  value = data.aws_canonical_user_id.me.id
}
