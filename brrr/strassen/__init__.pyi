"""The public names of brrr.strassen: `__init__.py` loads each from here, when it is first used."""

from .implementations import IMPLEMENTATIONS as IMPLEMENTATIONS
from .implementations import Implementation as Implementation
from .multiply import explain as explain
from .multiply import matmul as matmul
from .network import StrassenMLP as StrassenMLP
from .network import fuse as fuse
from .planner import plan as plan
