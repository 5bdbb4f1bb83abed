"""What exercises on tensors share: what torch did meanwhile, and whether a result is the one expected."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from brrr_course.lessons.marks import Wrong


class Watching(TorchDispatchMode):
    """While it is entered, `before` gets each operator of torch with its arguments, and `after` also its result.

    >>> seen = []
    >>> with Watching(after=lambda function, args, kwargs, result: seen.append(str(function))):
    ...     _ = torch.ones(2) + 1
    >>> seen
    ['aten.ones.default', 'aten.add.Tensor']
    """

    def __init__(self, after: Callable[..., None], before: Callable[..., None] = lambda function, args: None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.before, self.after = before, after

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.before(function, args)
        result = function(*args, **(kwargs or {}))
        self.after(function, args, kwargs or {}, result)
        return result


def tensor(found: Any, hint: str) -> torch.Tensor:
    """What the student's function returned; Wrong, with the hint, if that is no tensor.

    >>> tensor(torch.ones(1), "Return the sum.")
    tensor([1.])
    """
    if not isinstance(found, torch.Tensor):
        raise Wrong(f"your function returned {type(found).__name__}.", hint)
    return found


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    """Whether the norm of the difference is at most that share of the norm of what is expected, in float64.

    >>> close(torch.tensor([3.0, 4.4]), torch.tensor([3.0, 4.0]), 0.1), close(torch.zeros(1), torch.zeros(1), 1e-6)
    (True, True)
    """
    return bool((found.double() - expected.double()).norm() <= tolerance * expected.double().norm())


def first_like(found: torch.Tensor, known: Iterable[tuple[torch.Tensor, str]], other: str, tolerance: float) -> str:
    """What is said of the usual mistake that gives this result; `other` where none does.

    >>> first_like(torch.ones(2), [(torch.zeros(2), "nothing is written"), (torch.ones(2), "ones")], "?", 1e-6)
    'ones'
    """
    return next((said for like, said in known if close(found, like, tolerance)), other)
