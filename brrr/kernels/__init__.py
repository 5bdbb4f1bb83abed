"""Kernels of the package: one idea a pair of files, the CUDA C++ beside the Python that loads it."""
