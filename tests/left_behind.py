"""What a test leaves changed in the process: each such thing is named and put back, so that no later test meets it.

>>> import os
>>> before = state()
>>> os.environ["LEFT"] = "here"
>>> put_back(before)
["environment: LEFT was not set, is 'here'"]

Looked at is what was ever left behind here: the environment, folders, modules of a test's own, threads, and torch's
settings where torch is loaded. What its compiler sets for the process is no change.
"""

import gc
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

UNSET = "not set"
ENDING_S = 2.0
"""How long a thread may take to end that was told to."""
COMPILER_S = "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "PYTEST_CURRENT_TEST"
"""Variables that torch's compiler, a live measurement, or pytest sets for a process."""
KEPT_THREADS = ("tqdm", "asyncio-waitpid", "brrr-repeat", "Dask-Offload", "Inductor", "subproc_worker", "ThreadPool")
"""How the names of those begin that a library starts once and keeps."""
not_compiled = re.compile(r"(?!c[a-z2-7]{51}\b|torch\._inductor|__triton_|cuda_utils\b)").match
"""Of a module's name: what torch's compiler makes is named by a hash and its own, wherever a test has it write that."""
BACKENDS = [("generic", "all"), *((a, b) for a in ("cuda", "mkldnn") for b in ("all", "matmul", "conv", "rnn"))]

State = dict[str, Any]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(COMPILER_S)}


def set_environment(was: dict[str, str]) -> None:
    for name in environment().keys() - was.keys():
        del os.environ[name]
    os.environ.update(was)


def precisions() -> dict[Any, Any]:
    """In what torch multiplies float32; it refuses to tell the older settings where the newer ones differ from them."""
    c = sys.modules["torch"]._C
    newer = getattr(c, "_get_fp32_precision_getter", None)
    found = {each: newer(*each) for each in BACKENDS} if newer else {}
    for older in ("float32_matmul_precision", "cudnn_allow_tf32"):
        with suppress(RuntimeError):
            found[older] = getattr(c, f"_get_{older}")()
    return found


def set_precisions(was: dict[Any, Any]) -> None:
    """The newer ones twice: the older ones are refused while these differ, and change them."""
    c = sys.modules["torch"]._C
    newer = [partial(c._set_fp32_precision_setter, *each, value) for each, value in was.items() if each in BACKENDS]
    older = [partial(getattr(c, f"_set_{each}"), value) for each, value in was.items() if each not in BACKENDS]
    for put in (*newer, *older, *newer):
        put()


def _path(libraries: bool) -> list[str]:
    """Folders within a library's, as setuptools adds one, are its own business."""
    return [each for each in sys.path if ("site-packages" in each) is libraries]


PLAIN: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "environment": (environment, set_environment),
    "os.getcwd": (os.getcwd, os.chdir),
    "sys.path": (lambda: _path(False), lambda was: sys.path.__setitem__(slice(None), [*was, *_path(True)])),
}
TORCH: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    f"torch.get_{name}": (
        lambda name=name: getattr(sys.modules["torch"], f"get_{name}")(),
        lambda was, name=name: getattr(sys.modules["torch"], f"set_{name}")(was),
    )
    for name in ("default_dtype", "num_threads")
} | {"torch's precision of float32": (precisions, set_precisions)}


def _kinds() -> State:
    loaded = hasattr(sys.modules.get("torch"), "set_num_threads")  # not while it is being loaded
    return PLAIN | TORCH if loaded else PLAIN


def state() -> State:
    """What a test may change, as it is now."""
    settings = {name: read() for name, (read, _) in _kinds().items()}
    return {**settings, "modules": sys.modules.copy(), "threads": threading.enumerate()}


def put_back(before: State, passing: str = UNSET) -> list[str]:
    """What is no longer as it was, a line for each, after putting it back.

    Modules whose files lie in the folder `passing` are the test's own, which another test's of that name may not meet.
    """
    return [*_settings(before), *_threads(before["threads"]), *_modules(before["modules"], passing)]


def _settings(before: State) -> Iterator[str]:
    """All are read before one is put back: to put back torch's modes changes what others tell."""
    found = {name: read() for name, (read, _) in _kinds().items() if before.get(name) is not None}
    for name, was, now in [(name, before[name], is_) for name, is_ in found.items() if before[name] != is_]:
        pairs = {"": (was, now)} if not isinstance(was, dict) else {
            key: (was.get(key, UNSET), now.get(key, UNSET)) for key in sorted({*was, *now}, key=str)}  # fmt: skip
        for key, (old, new) in pairs.items():
            if old != new:
                shown = (UNSET if each is UNSET else repr(each)[:200] for each in (old, new))
                yield "{}: {}was {}, is {}".format(name, f"{key} " if key else "", *shown)
        _kinds()[name][1](was)


def kept(thread: threading.Thread) -> bool:
    return thread.name.startswith(KEPT_THREADS) or type(thread).__name__ == "TMonitor"  # tqdm 4.66 names it not


def _threads(before: list[threading.Thread]) -> Iterator[str]:
    new = [each for each in threading.enumerate() if each not in before and not kept(each)]
    new = [each for each in new if not isinstance(each, threading._DummyThread)]  # a library's own
    if new:
        gc.collect()  # those of a pool that nobody holds end with it
    end_s = time.monotonic() + ENDING_S
    for thread in new:
        thread.join(max(0.0, end_s - time.monotonic()))
        if thread.is_alive():
            yield f"threads: {thread.name} still runs"


def _modules(before: State, passing: str) -> Iterator[str]:
    """Those that a test took away, or loaded from a folder of its own."""
    for name in filter(not_compiled, before.keys() - sys.modules.keys()):
        yield f"sys.modules: {name} was taken out"
        sys.modules[name] = before[name]
    for name in filter(not_compiled, sys.modules.keys() - before.keys()):
        if str(getattr(sys.modules[name], "__file__", None)).startswith(passing):
            yield f"sys.modules: {name} is the test's own"
            del sys.modules[name]
