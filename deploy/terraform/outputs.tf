output "outputs" {
  description = "The outputs of the stack, by name: StateBucketName, TopicArn, Version and the rest."
  value       = aws_cloudformation_stack.curfew.outputs
}
