"""What a lesson calls: `guess` before the experiment, `compare` after it, and `check` for the exercises.

>>> g = guess("How long does this take?", unit="s", answer="25 µs")
Your guess: 25 µs
>>> g.compare(3.1e-3)
you said 25 µs, measured 3.1 ms: 124x too short
"""

from __future__ import annotations

from brrr.lessons.checking import Mark, check
from brrr.lessons.comparison import Comparison, compare, reachable
from brrr.lessons.guessing import Guess, forget, guess

__all__ = ["Comparison", "Guess", "Mark", "check", "compare", "forget", "guess", "reachable"]
