"""float32 products through the tensor cores: operands split into two float16 terms, and the kernels for them."""
