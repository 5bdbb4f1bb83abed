"""What a call refuses, by the error's argument and value rather than by its wording."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brrr.core.errors import ArgumentError

ANY: Any = object()


@contextmanager
def refused(argument: str, value: Any = ANY) -> Iterator[None]:
    """Inside, an ArgumentError is raised, which names this argument and, where given, this value."""
    with pytest.raises(ArgumentError) as caught:
        yield
    assert caught.value.argument == argument, caught.value
    found = caught.value.value
    assert value is ANY or found is value or (found == value and type(found) is type(value)), caught.value


def values(table: dict[str, list[Any]]) -> list[tuple[str, Any]]:
    """Each value of each argument, for `parametrize`."""
    return [(argument, value) for argument, values in table.items() for value in values]
