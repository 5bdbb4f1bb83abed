"""Where a program's time goes and what would help: overhead, memory, compute, latency; live or from a trace."""
