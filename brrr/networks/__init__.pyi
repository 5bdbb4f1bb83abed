"""The public names of brrr.networks: `__init__.py` loads each from here, when it is first used."""

from .autotuning import Best as Best
from .autotuning import best as best
from .implementations import IMPLEMENTATIONS as IMPLEMENTATIONS
from .network import Network as Network
from .network import Weights as Weights
