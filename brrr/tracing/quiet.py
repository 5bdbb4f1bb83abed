"""Keep what torch's profiler writes to the process's error output (its start and its stop) out of a notebook."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

CHATTER = (b"USDT:", b"STAGE:", b"INFO:")
"""How the lines begin that kineto writes at each start and stop of a session."""


@contextmanager
def without_chatter() -> Iterator[None]:
    """Hold the process's error output back, and let through all but the profiler's own lines.

    For moments only, as starting and stopping a session: what other threads write meanwhile comes later.
    """
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # a process without an error output has nothing to keep quiet
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            said = b"".join(line for line in held if not line.startswith(CHATTER))
            if said:
                os.write(2, said)
