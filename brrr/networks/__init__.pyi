"""The public names of brrr.networks: `__init__.py` loads each from here, when it is first used."""

from .choosing import Best as Best
from .choosing import best as best
from .network import Network as Network
from .way import Prepared as Prepared
from .way import Way as Way
from .ways import WAYS as WAYS
from .weights import Weights as Weights
