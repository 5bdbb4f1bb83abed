"""Small systems of equations on one core.

numpy's OpenBLAS shares even those out, and waits for cores that others use: on a busy machine a hundred times as long.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any


@contextmanager
def one_core() -> Iterator[None]:
    """Within it numpy's linear algebra computes on one core, where it brings its own OpenBLAS.

    >>> import numpy as np
    >>> with one_core():
    ...     np.linalg.solve(np.eye(2), np.ones(2)).tolist()
    [1.0, 1.0]
    """
    if (library := _openblas()) is None:
        yield
        return
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        library.scipy_openblas_set_num_threads64_(before)


@cache
def _openblas() -> Any:
    """numpy's own; None where it uses another library."""
    import numpy

    found = [ctypes.CDLL(str(path)) for path in Path(numpy.__file__).parents[1].glob("numpy.libs/*openblas*")]
    return next((each for each in found if hasattr(each, "scipy_openblas_set_num_threads64_")), None)
