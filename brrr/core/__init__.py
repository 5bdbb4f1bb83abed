"""What everything else stands on: values, units, errors, measurements and their statistics, files."""

__version__ = "0.2.0"
