"""Shell scripts in commands: values reach them as data, never as code."""
