"""A line of CUDA C++ becomes a kernel: `elementwise("y = cosf(cosf(x))", x=x)`.

| module | what |
| --- | --- |
| `kernel.py` | `elementwise(...)`: checks, compiles, launches |
| `generate.py` | the text of the kernel around the student's line |
| `layout.py` | how an input is read: vectors, broadcasting, strides |
| `parse.py` | the line as tokens and as a tree |
| `emulate.py` | the same line through torch, on a CPU |
| `complaint.py` | the compiler's errors, pointing at the student's line |
"""

from brrr.kernels.elementwise.kernel import Elementwise, elementwise
from brrr.kernels.elementwise.parse import LineError

__all__ = ["Elementwise", "LineError", "elementwise"]
