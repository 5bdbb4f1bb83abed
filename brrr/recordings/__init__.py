"""Measurements kept on disk: plan, record, write, validate, read."""
