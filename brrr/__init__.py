"""brrr: timers that tell the truth about GPU code, a roofline calculator, kernels, and what limits a program.

>>> import brrr
>>> print(brrr.measure(lambda: sum(range(100_000)), device="cpu", budget_s=0.05).period_s is not None)
True

Importing it loads no torch and no matplotlib: each name is loaded on first use. The lessons are in brrr_course.
"""

from brrr.core import __version__ as __version__
from brrr.core.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["__version__"]
