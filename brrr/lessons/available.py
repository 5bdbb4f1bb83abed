"""`first_available`: which of several sets of lines to show, by what the source has."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from brrr.errors import ArgumentError
from brrr.experiments import experiment as experiment_named
from brrr.source import Source
from brrr.source import source as default_source

Lines = TypeVar("Lines", bound=Collection[str])


def first_available(experiment: str, *choices: Lines, source: Source | None = None) -> Lines:
    """The first of the choices (lists of lines, or mappings from them) of which the source has a line; else the first.

    >>> first_available("cos_cos", ["compile", "triton"], ["cpu blocks"])  # doctest: +SKIP
    ['compile', 'triton']

    So a figure shows a GPU's lines where there are some, and the CPU's own on a laptop, but never both in one ratio.
    ArgumentError for a line that does not exist, and without any choice.
    """
    if not choices:
        raise ArgumentError("first_available", "choices", (), "at least one list of lines")
    described, origin = experiment_named(experiment), source or default_source()
    there = set(origin.variants(described))
    variants = [{described.line(name).variant for name in names} for names in choices]
    return next((names for names, own in zip(choices, variants, strict=True) if own & there), choices[0])
