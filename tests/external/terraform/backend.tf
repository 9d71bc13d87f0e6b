# A state in a bucket, locked by an object beside it. The change waits for a file named by "gate".
terraform {
  backend "s3" {
    bucket                      = "named by the test"
    key                         = "environments/one/terraform.tfstate"
    region                      = "us-east-1"
    use_lockfile                = true
    use_path_style              = true
    skip_credentials_validation = true
    skip_metadata_api_check     = true
    skip_requesting_account_id  = true
  }
}

variable "value" {
  type = string
}

variable "gate" {
  type    = string
  default = ""
}

resource "terraform_data" "change" {
  input            = var.value
  triggers_replace = var.value

  provisioner "local-exec" {
    command = var.gate == "" ? "true" : "touch '${var.gate}.reached'; while [ ! -e '${var.gate}' ]; do sleep 0.1; done"
  }
}

output "value" {
  value = terraform_data.change.output
}
