"""Batched float32 products of our own: CUDA C++ and Triton."""
