"""The public names of brrr.strassen: `__init__.py` loads each from here, when it is first used."""

from .algebra.blocks import block_shape as block_shape
from .algebra.forms import FORMS as FORMS
from .algebra.forms import BilinearForm as BilinearForm
from .choosing import ProductPlan as ProductPlan
from .choosing import plan as plan
from .multiply import explain as explain
from .multiply import matmul as matmul
from .multiply import prepare as prepare
from .network import StrassenLinear as StrassenLinear
from .network import StrassenMLP as StrassenMLP
from .network import fuse as fuse
from .predicting import ParetoPoint as ParetoPoint
from .predicting import frontier as frontier
from .ways import INNERS as INNERS
from .ways import WAYS as WAYS
from .ways import Way as Way
