# Buckets that keep versions, lock them and let them go.
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

variable "status" {
  type    = string
  default = "Enabled"
}

variable "days" {
  type    = number
  default = 30
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

resource "aws_s3_bucket" "versions" {
  bucket        = "${var.prefix}-versions"
  force_destroy = true
}

resource "aws_s3_bucket_versioning" "versions" {
  bucket = aws_s3_bucket.versions.id

  versioning_configuration {
    status = var.status
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "versions" {
  depends_on = [aws_s3_bucket_versioning.versions]
  bucket     = aws_s3_bucket.versions.id

  rule {
    id     = "logs"
    status = "Enabled"

    filter {
      and {
        prefix                   = "logs/"
        object_size_greater_than = 1000
        tags                     = { kind = "tést" }
      }
    }

    expiration {
      days = var.days
    }
  }

  rule {
    id     = "versions"
    status = "Enabled"

    filter {}

    expiration {
      expired_object_delete_marker = true
    }

    noncurrent_version_expiration {
      noncurrent_days           = var.days
      newer_noncurrent_versions = 2
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  rule {
    id     = "dated"
    status = "Disabled"

    filter {
      prefix = "2040/"
    }

    expiration {
      date = "2040-01-01T00:00:00Z"
    }
  }
}

resource "aws_s3_bucket" "locks" {
  bucket              = "${var.prefix}-locks"
  object_lock_enabled = true
}

resource "aws_s3_bucket_object_lock_configuration" "locks" {
  bucket = aws_s3_bucket.locks.id

  rule {
    default_retention {
      mode = "GOVERNANCE"
      days = var.days
    }
  }
}

# It gets its locks when it is there already.
resource "aws_s3_bucket" "late" {
  bucket = "${var.prefix}-late"
}

resource "aws_s3_bucket_versioning" "late" {
  bucket = aws_s3_bucket.late.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_object_lock_configuration" "late" {
  depends_on = [aws_s3_bucket_versioning.late]
  bucket     = aws_s3_bucket.late.id

  rule {
    default_retention {
      mode  = "COMPLIANCE"
      years = 1
    }
  }
}

resource "aws_s3_object" "kept" {
  depends_on                    = [aws_s3_bucket_object_lock_configuration.locks]
  bucket                        = aws_s3_bucket.locks.id
  key                           = "kept"
  content                       = "for ${var.days} days"
  object_lock_legal_hold_status = "ON"
  object_lock_mode              = "GOVERNANCE"
  object_lock_retain_until_date = "2040-01-01T00:00:00Z"
  force_destroy                 = true
}
