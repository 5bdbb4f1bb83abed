"""A line of CUDA C++ becomes a kernel: `elementwise("y = cosf(cosf(x))", x=x)`.

| module | what |
| --- | --- |
| `kernel.py` | `elementwise(...)`: checks, compiles, launches |
| `generate.py` | the text of the kernel around the student's line, and how an input is read |
| `parse.py` | what is asked of the line, and what is said where it does not compile |
| `emulate.py` | the same line through torch, on a CPU |
"""
