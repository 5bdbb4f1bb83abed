"""Exercise 07c-slow-line: which of four products of a language model is slow, and what would mend it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from brrr.counting.cost import Matmul
from brrr.roofline.shapes import product_time_s

TOKENS, WIDTH, WORDS = 12287, 768, 50257


def model_lines() -> dict[str, tuple[int, int, int]]:
    """List the matmuls of a small language model whose number of tokens is odd.

    >>> model_lines()["head"]
    (12287, 50257, 768)

    Returns
    -------
    dict of str to tuple of int
        The sizes (M, N, K) of each matmul by its name.
    """
    columns = {"qkv": 3 * WIDTH, "out": WIDTH, "up": 4 * WIDTH, "head": WORDS}
    return {name: (TOKENS, each, WIDTH) for name, each in columns.items()}


def padded(answers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What exercise 07c-slow-line says of a vocabulary of so many words: those to spare, and the predicted gain.

    >>> padded({"line": "head", "words": 50264})[0]["spare"]
    7
    """
    words = max(answers.get("words", WORDS), 1)  # what is below is wrong, and told without this
    return [{"spare": words - WORDS, "faster": _head_s(WORDS) / _head_s(words)}]


@cache
def _head_s(words: int) -> float:
    """What the head's product should take with so many words: a page's table of marks asks for the same again."""
    return product_time_s(Matmul(TOKENS, words, WIDTH, dtype="bfloat16", transposed=(False, True)), "h200")
