"""The small languages inside strings: variables, templates, conditions and shell scripts."""
