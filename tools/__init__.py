"""What only maintainers run: hardware counters, the predictor's evaluation, refits; `brrr` never imports it."""
