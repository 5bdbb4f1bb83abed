"""The words of the course: experiment, axis, variant, line, claim, source."""
