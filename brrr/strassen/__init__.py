"""Products of matrices with seven block products in place of eight, from the algebra to a network's layers.

>>> from brrr.strassen import plan
>>> plan(8192, 8192, 8192, accuracy=5e-6, inner="sgemm", device="h200").implementation.name
'sgemm-strassen-3'

| module | what |
| --- | --- |
| `multiply.py`, `product.py` | `matmul(a, b, accuracy=...)`, `explain` |
| `network.py`, `layers.py`, `chain_run.py`, `operators.py` | chains of layers: `StrassenMLP`, `fuse(model)` |
| `implementations.py` | each implementation: a base GEMM and the levels around it; with sizes and type |
| `request.py`, `planner.py` | what is asked; `plan(...)`: which implementation, and why |
| `cost.py`, `accuracy.py` | memory, launches and time; error |
| `execution.py`, `launcher.py`, `operands.py` | the steps of an implementation; their launches; operands |
| `odd_sizes.py` | sizes that blocks do not divide |
| `algebra/` | the forms, and where blocks lie |
| `passes/` | sums of blocks before, between and after the products, each in one pass over memory |
| `block_products.py` | the products of blocks, by cuBLAS or torch |
| `split/` | products of several short terms |

Importing this loads neither numpy nor torch.
"""

from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
