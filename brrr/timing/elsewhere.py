"""Refuses tensors on a device that nothing here waits for: their time would be that of asking for the work."""

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from brrr.core.errors import ArgumentError
from brrr.gpu import GPU, is_gpu


def refuse_elsewhere(call: str, place: object, run: Callable[[], Any]) -> None:
    """ArgumentError where `run`, or its result, has tensors that lie neither where it is timed nor on the CPU.

    What `run` raises is left to the next call, which nobody looks at. Where torch is not loaded, nothing runs.
    """
    if "torch" not in sys.modules:
        return
    from brrr.timing.looking import Looking

    looking = Looking()
    with suppress(Exception), looking:
        looking.look(run())
    if found := looking.kinds - ({"cpu", GPU} if is_gpu(place) else {"cpu"}):
        hint = f"device={GPU!r} measures the GPU" if found == {GPU} else f"brrr measures 'cpu' and {GPU!r}"
        what = "tensors on the device that is timed, or on the CPU: nothing would wait for the others"
        raise ArgumentError(call, "fn", f"one with tensors on {', '.join(sorted(found))}", what, hint)
