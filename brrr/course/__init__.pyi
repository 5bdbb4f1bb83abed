"""What lessons import of the course: `__init__.py` loads each from here, when it is first used."""

from .lessons.checking import Mark as Mark
from .lessons.checking import check as check
from .lessons.comparison import Comparison as Comparison
from .lessons.comparison import compare as compare
from .lessons.comparison import reachable as reachable
from .lessons.guessing import Guess as Guess
from .lessons.guessing import forget as forget
from .lessons.guessing import guess as guess
