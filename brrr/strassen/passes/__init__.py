"""Sums of blocks before and after the products of Strassen's algorithm: one pass over memory each."""
