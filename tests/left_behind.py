"""What a test leaves changed in the process: each such thing is named and put back, so that no later test meets it.

>>> import os
>>> before = state()
>>> os.environ["LEFT"] = "here"
>>> put_back(before)
["environment: LEFT was not set, is 'here'"]

Nothing is loaded for it: a library's settings are looked at where the library is there. Random numbers drawn, modules
loaded and what a cache keeps are no change. Filters of warnings and the standard streams pytest itself puts back.
"""

import gc
import os
import re
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple

UNSET = "not set"
ENDING_S = 2.0
"""How long a thread may take to end that was told to."""
NOT_THE_TESTS = "PYTEST_CURRENT_TEST", "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_CACHE_DIR"
"""Variables of pytest, and those that torch's compiler sets for a process as soon as something is compiled in it."""
KEPT_THREADS = ("tqdm", "asyncio-waitpid", "brrr-repeat", "Dask-Offload", "InductorSubproc", "subproc_worker_timer")
"""How the names of those begin that a library starts once and keeps."""

ATTRIBUTES = """
sys.excepthook sys.displayhook sys.dont_write_bytecode threading.excepthook
logging.root.level logging.root.manager.disable
torch.backends.cudnn.enabled torch.backends.cudnn.benchmark torch.backends.cudnn.deterministic
torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction torch.backends.mkldnn.enabled
torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction torch.utils.deterministic.fill_uninitialized_memory
"""
FUNCTIONS = """
os.getcwd os.chdir
sys.getswitchinterval sys.setswitchinterval
sys.gettrace sys.settrace
sys.getprofile sys.setprofile
socket.getdefaulttimeout socket.setdefaulttimeout
torch.get_default_dtype torch.set_default_dtype
torch.get_num_threads torch.set_num_threads
torch.get_deterministic_debug_mode torch.set_deterministic_debug_mode
torch.is_grad_enabled torch._C._set_grad_enabled
torch.is_anomaly_enabled torch.set_anomaly_enabled
torch.backends.cuda.flash_sdp_enabled torch.backends.cuda.enable_flash_sdp
torch.backends.cuda.math_sdp_enabled torch.backends.cuda.enable_math_sdp
torch.backends.cuda.mem_efficient_sdp_enabled torch.backends.cuda.enable_mem_efficient_sdp
torch.backends.cuda.cudnn_sdp_enabled torch.backends.cuda.enable_cudnn_sdp
"""
BACKENDS = [("generic", "all"), *((each, "all") for each in ("cuda", "mkldnn"))]
BACKENDS += [(each, products) for each in ("cuda", "mkldnn") for products in ("matmul", "conv", "rnn")]
SIGNALS = [each for each in signal.Signals if each < 32 and each.name != "SIGALRM"]
"""The alarm is pytest-timeout's."""


class Kind(NamedTuple):
    """What a process has once: how it is read and written, and the module that keeps it."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]
    module: str = "sys"


State = dict[str, Any]


def state() -> State:
    """What a test may change, as it is now."""
    settings = {kind.name: _read(kind) for kind in KINDS if kind.module in sys.modules}
    return {**settings, "modules": sys.modules.copy(), "threads": threading.enumerate()}


def put_back(before: State, passing: str = UNSET) -> list[str]:
    """What is no longer as it was, a line for each, after putting it back.

    Modules whose files lie in the folder `passing` are the test's own, which another test's of that name may not meet.
    """
    return [*_settings(before), *_threads(before["threads"]), *_modules(before["modules"], passing)]


def _settings(before: State) -> Iterator[str]:
    """All are read before one is put back: to put back one of torch's changes what others tell."""
    there = [(kind, before[kind.name], _read(kind)) for kind in KINDS if kind.name in before]
    for kind, was, now in there:
        if not _alike(was, now):
            yield from (f"{kind.name}: {each}" for each in _differences(was, now))
            with suppress(Exception):  # it is told all the same
                kind.write(was)


def _read(kind: Kind) -> Any:
    try:
        return kind.read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _alike(was: Any, now: Any) -> bool:
    try:
        return bool(was is now or was == now)
    except Exception:  # arrays do not say whether they are equal
        return False


def _differences(was: Any, now: Any) -> Iterator[str]:
    if not isinstance(was, dict) or not isinstance(now, dict):
        yield f"was {was!r}, is {now!r}"
        return
    for key in sorted({*was, *now}, key=str):
        pair = [each.get(key, UNSET) for each in (was, now)]
        if not _alike(*pair):
            yield "{} was {}, is {}".format(key, *(UNSET if each is UNSET else repr(each)[:200] for each in pair))


# ---- what is not read and written alike ----


def _threads(before: list[threading.Thread]) -> Iterator[str]:
    loaded = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    compiler_s = loaded.pool()._threads if loaded is not None and loaded.pool.cache_info().currsize else ()
    kept = {*before, *compiler_s}
    new = [each for each in threading.enumerate() if each not in kept and not each.name.startswith(KEPT_THREADS)]
    if new:
        gc.collect()  # those of a pool that nobody holds end with it
    end_s = time.monotonic() + ENDING_S
    for thread in new:
        thread.join(max(0.0, end_s - time.monotonic()))
        if thread.is_alive():
            yield f"threads: {thread.name} still runs"


def _modules(before: dict[str, ModuleType], passing: str) -> Iterator[str]:
    """Those that a test took away, replaced, made up, or loaded from a folder of its own."""
    if before == sys.modules:  # as behind most tests, and a tenth of the time
        return
    for name in [*before]:
        if sys.modules.get(name) is not before[name] and not COMPILED.match(name):
            yield f"sys.modules: {name} was {'replaced' if name in sys.modules else 'taken out'}"
            sys.modules[name] = before[name]
    for name in sys.modules.keys() - before.keys():
        if _passing(name, passing):
            yield f"sys.modules: {name} is the test's own"
            del sys.modules[name]


def _passing(name: str, passing: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None)
    if COMPILED.match(name):
        return False
    if file is not None:
        return str(file).startswith(passing) or (os.path.isabs(file) and not os.path.exists(file))
    return getattr(sys.modules.get(name.partition(".")[0]), "__spec__", None) is None  # torch.ops has none, torch has


COMPILED = re.compile(r"torch\._inductor\.|c[a-z2-7]{51}\b|_cython_|cython(_runtime|\.|$)|__triton_launcher|_openssl")
"""Modules that have no file: a compiler makes them up, torch's named by a hash, or a library in C has them."""


# ---- what is ----


def _kind(read: str, write: str = "") -> Kind:
    """An attribute, or two functions that read and write, by their full names."""
    module, _, path = read.partition(".")
    if write:
        setter = attrgetter(write.partition(".")[2])
        return Kind(read, lambda: attrgetter(path)(sys.modules[module])(),
                    lambda value: setter(sys.modules[module])(value), module)  # fmt: skip
    owner, _, last = path.rpartition(".")

    def put(value: Any) -> None:
        setattr(attrgetter(owner)(sys.modules[module]) if owner else sys.modules[module], last, value)

    return Kind(read, lambda: attrgetter(path)(sys.modules[module]), put, module)


def _in_list(name: str) -> Kind:
    """What stands in a list of `sys`, but for folders within a library's, as setuptools adds one to `sys.path`."""
    kept: list[str] = getattr(sys, name)

    def own(*, is_own: bool = True) -> list[str]:
        return [each for each in getattr(sys, name) if str(each).startswith(WITHIN) is not is_own]

    def write(was: list[str]) -> None:
        kept[:] = [*was, *own(is_own=False)]
        setattr(sys, name, kept)

    return Kind(f"sys.{name}", own, write)


WITHIN = tuple(f"{sysconfig.get_path(each)}{os.sep}" for each in ("stdlib", "platstdlib", "purelib", "platlib"))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(NOT_THE_TESTS)}


def _set_environment(was: dict[str, str]) -> None:
    for name in _environment().keys() - was.keys():
        del os.environ[name]
    os.environ.update(was)


def _handlers() -> dict[str, Any]:
    return {each.name: signal.getsignal(each) for each in SIGNALS}


def _set_handlers(was: dict[str, Any]) -> None:
    for name, handler in was.items():
        if handler is not signal.getsignal(signal.Signals[name]):
            signal.signal(signal.Signals[name], handler)


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


def _set_device(was: Any) -> None:
    sys.modules["torch"].set_default_device(None if was.type == "cpu" else was)


KINDS = (
    Kind("environment", _environment, _set_environment),
    Kind("signal handlers", _handlers, _set_handlers),
    *map(_in_list, ("path", "argv")),
    *map(_kind, ATTRIBUTES.split()),
    *(_kind(*line.split()) for line in FUNCTIONS.strip().splitlines()),
    Kind("torch's default device", lambda: sys.modules["torch"].get_default_device(), _set_device, "torch"),
    Kind("torch's precision of float32", precisions, set_precisions, "torch"),
    Kind("numpy.seterr", lambda: sys.modules["numpy"].geterr(), lambda was: sys.modules["numpy"].seterr(**was),
         "numpy"),
    Kind("matplotlib.rcParams", lambda: {**dict.copy(sys.modules["matplotlib"].rcParams), "backend": None},
         lambda was: dict.update(sys.modules["matplotlib"].rcParams, {**was, "backend": "agg"}), "matplotlib"),
)  # fmt: skip
