"""What a lesson calls: `guess` before the experiment, `compare` after it, and `check` for the exercises.

>>> g = guess("How long does this take?", unit="s", answer="25 µs")
Your guess: 25 µs
>>> g.value
2.5e-05
"""

from brrr.core.lazy import attach
from brrr.core.recordings import offer
from brrr_course.nouns import places

offer(places.share("data") / "recordings")
__getattr__, __dir__, __all__ = attach(__name__, __file__)
