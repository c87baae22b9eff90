"""What happens when a plan runs: values are worked out, files found, prompts and results made."""
