"""Batched products of the libraries, by one interface."""
