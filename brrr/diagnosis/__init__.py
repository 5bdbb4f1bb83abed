"""Where a program's time goes, live or from a trace, and what would help."""
