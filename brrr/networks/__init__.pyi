"""The public names of brrr.networks: `__init__.py` loads each from here, when it is first used."""

from .choosing import Best as Best
from .choosing import best as best
from .implementations import IMPLEMENTATIONS as IMPLEMENTATIONS
from .network import Network as Network
from .network import Weights as Weights
