variable "curfew_version" {
  description = "The version of Curfew, such as 1.2.3. It has to be in the bucket."
  type        = string
  validation {
    condition     = can(regex("^\\d+\\.\\d+\\.\\d+$", var.curfew_version))
    error_message = "curfew_version is three numbers with dots, such as 1.2.3."
  }
}

variable "bucket" {
  description = "The bucket with the release, in the region of the provider: curfew/VERSION/ has the template and the functions."
  type        = string
}

variable "parameters" {
  description = "Parameters of the stack, such as { NotificationEmail = \"you@example.com\" }. One that is not named has its default."
  type        = map(string)
  default     = {}
}

variable "name" {
  description = "The name of the stack, which the command takes as --stack."
  type        = string
  default     = "curfew"
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation hands on to its resources."
  type        = map(string)
  default     = {}
}
