"""A network ready to run, and how the call of any implementation becomes one CUDA Graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

from brrr.core.errors import UnavailableError
from brrr.core.heavy import torch
from brrr.networks.network import Weights


@dataclass
class Prepared:
    """A network ready to run: `run()` computes the result for the weights' `x`, as it then is, and returns it.

    >>> with Prepared(lambda: 7) as made:
    ...     made.run()
    7

    On a GPU the result is not there yet when the call returns, and the next call may overwrite it. `run` is the bare
    function, so that a loop over it times nothing else. `close` gives back what it holds, more than once if need be.
    """

    run: Callable[[], Any]
    release: Callable[[], None] = field(default=lambda: None, repr=False)

    def close(self) -> None:
        """Free what it holds; `run` refuses afterwards."""
        release, self.release, self.run = self.release, lambda: None, _closed
        release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _closed() -> Any:
    raise UnavailableError("Prepared.run: it was closed; build it again")


def captured(make: Callable[[Weights], Callable[[], Any]], weights: Weights) -> Prepared:
    """What a maker gives for these weights, as a CUDA Graph whose memory goes back when it is closed.

    It is made and captured on a stream that PyCUDA can use too, where PyCUDA is here.
    """
    from brrr.gpu.launching import shared_stream
    from brrr.gpu.precision import float32_products
    from brrr.running.graphs import capture

    try:
        stream = shared_stream(weights.device.index).torch
    except UnavailableError:
        stream = torch.cuda.Stream(weights.device)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run = make(weights)
    with float32_products(weights.network.tf32):
        held = capture(run, stream=stream)

    def release() -> None:
        torch.cuda.synchronize(weights.device)  # a replay may be under way, and its memory is about to go
        held.graph.reset()
        held.output = None

    # The graph knows addresses only: the run holds the tensors that lie there.
    return Prepared(lambda replay=held.replay, kept=(run, weights): replay(), release)  # type: ignore[misc]
