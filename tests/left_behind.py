"""What a test leaves changed in the process: each such thing is named and put back, so that no later test meets it.

>>> import os
>>> before = state()
>>> os.environ["LEFT"] = "here"
>>> put_back(before)
["environment: LEFT was not set, is 'here'"]

Nothing is loaded for it: a library's settings are looked at where the library is there. Random numbers drawn, modules
loaded and what a cache keeps are no change. Filters of warnings and the standard streams pytest itself puts back.
"""

import atexit
import builtins
import gc
import locale
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
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

UNSET = "not set"
ENDING_S = 2.0
"""How long a thread may take to end that was told to."""
UNTOLD = "as it should be, though no test changed it"
COMPILER_S = "TORCHINDUCTOR_", "_TORCHINDUCTOR_", "TRITON_CACHE_DIR", "TRITON_PTXAS_PATH"
"""Variables that torch's compiler, and a live measurement, set for a process as soon as something is compiled in it."""
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
torch.is_autocast_cache_enabled torch.set_autocast_cache_enabled
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
    return {**settings, "modules": sys.modules.copy(), "threads": threading.enumerate(), "exit": len(AT_EXIT)}


def put_back(before: State, passing: str = UNSET) -> list[str]:
    """What is no longer as it was, a line for each, after putting it back.

    Modules whose files lie in the folder `passing` are the test's own, which another test's of that name may not meet.
    """
    at_exit = [f"atexit: {each} is called at the end" for each in AT_EXIT[before["exit"] :]]
    return [*_settings(before), *_threads(before["threads"]), *at_exit, *_modules(before["modules"], passing)]


def _settings(before: State) -> Iterator[str]:
    """All are read before one is put back: to put back torch's modes changes what others tell."""
    there = [(kind, before.get(kind.name, AS_LOADED.get(kind.name))) for kind in KINDS if kind.module in sys.modules]
    read = [(kind, was, now) for kind, was in there if was is not None and not _alike(was, now := _read(kind))]
    for kind, was, now in read:
        yield from (f"{kind.name}: {each}" for each in _differences(was, now) if not kind.name.endswith(UNTOLD))
        with suppress(Exception):  # it is told all the same
            kind.write(was[0])


def _read(kind: Kind) -> tuple[Any]:
    """In a tuple, so that None is a value too."""
    try:
        return (kind.read(),)
    except Exception as error:
        return (f"{type(error).__name__}: {error}",)


def _alike(was: Any, now: Any) -> bool:
    try:
        return bool(was is now or was == now)
    except Exception:  # arrays do not say whether they are equal
        return False


def _differences(was: Any, now: Any) -> Iterator[str]:
    ((old,), (new,)) = was, now
    if not isinstance(old, dict):
        yield f"was {old!r}, is {new!r}"
        return
    for key in sorted({*old, *new}, key=str):
        pair = [each.get(key, UNSET) for each in (old, new)]
        if not _alike(*pair):
            yield "{} was {}, is {}".format(key, *(UNSET if each is UNSET else repr(each)[:200] for each in pair))


# ---- what is not read and written alike ----


def _threads(before: list[threading.Thread]) -> Iterator[str]:
    kept = {*before, *_compiler_s_threads()}
    here = [each for each in threading.enumerate() if not isinstance(each, threading._DummyThread)]  # a library's own
    new = [each for each in here if each not in kept and not each.name.startswith(KEPT_THREADS)]
    if new:
        gc.collect()  # those of a pool that nobody holds end with it
    end_s = time.monotonic() + ENDING_S
    for thread in new:
        thread.join(max(0.0, end_s - time.monotonic()))
        if thread.is_alive():
            yield f"threads: {thread.name} still runs"


def _compiler_s_threads() -> set[threading.Thread]:
    loaded = getattr(sys.modules.get("torch._inductor.async_compile"), "AsyncCompile", None)
    return loaded.pool()._threads if loaded is not None and loaded.pool.cache_info().currsize else set()


def _register(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """`atexit.register`, which also notes what no library has registered; a library in C is called from no file."""
    by, in_python = sys._getframe(1).f_code.co_filename, getattr(function, "__module__", None) is not None
    if in_python and not by.startswith(LIBRARIES):
        AT_EXIT.append(getattr(function, "__qualname__", repr(function)))
    return registered(function, *args, **kwargs)


registered, atexit.register = atexit.register, _register
AT_EXIT: list[str] = []
LIBRARIES = tuple(map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
ROOT = Path(__file__).resolve().parents[1]
LIBRARIES += (str(ROOT / "brrr"), *({*filter(None, os.getenv("PYTHONPATH", "").split(os.pathsep))} - {str(ROOT)}))
"""Where the libraries' code lies, and that of our own packages: what they keep until the end is no test's doing."""


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


COMPILED = re.compile(r"torch\._inductor\.|c[a-z2-7]{51}\b|_?cython(_|\.|$)|__triton_|cuda_utils$|_openssl")
"""Modules that have no file: a compiler makes them up, torch's named by a hash, or a library in C has them."""


# ---- what is ----


def _attribute(path: str) -> Kind:
    owner, _, last = path.rpartition(".")
    module, _, inner = owner.partition(".")

    def owned() -> Any:
        return attrgetter(inner)(sys.modules[module]) if inner else sys.modules[module]

    return Kind(path, lambda: getattr(owned(), last), lambda value: setattr(owned(), last, value), module)


def _functions(line: str) -> Kind:
    (module, read), (_, write) = (path.split(".", 1) for path in line.split())
    return Kind(
        line.split()[0],
        lambda: attrgetter(read)(sys.modules[module])(),
        lambda value: attrgetter(write)(sys.modules[module])(value),
        module,
    )


def _within(name: str, kept: Callable[[], Any], module: str = "sys", but: tuple[str, ...] = ()) -> Kind:
    """What stands in a dictionary, but for keys that are not the tests' business."""

    def read() -> dict[Any, Any]:
        return {key: value for key, value in dict.items(kept()) if key not in but}

    def write(was: dict[Any, Any]) -> None:
        for key in read().keys() - was.keys():
            dict.__delitem__(kept(), key)
        dict.update(kept(), was)

    return Kind(name, read, write, module)


def _in_list(name: str) -> Kind:
    """What stands in a list of `sys`, but for folders within a library's, as setuptools adds one to `sys.path`."""
    kept: list[str] = getattr(sys, name)

    def own(*, is_own: bool = True) -> list[str]:
        return [each for each in getattr(sys, name) if str(each).startswith(WITHIN) is not is_own]

    def write(was: list[str]) -> None:
        kept[:] = [*was, *own(is_own=False)]
        setattr(sys, name, kept)

    return Kind(f"sys.{name}", own, write)


WITHIN = tuple(f"{path}{os.sep}" for path in LIBRARIES)


def _environment(*, compiler: bool = False) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return {name: value for name, value in own.items() if name.startswith(COMPILER_S) is compiler}


def _set_environment(was: dict[str, str], *, compiler: bool = False) -> None:
    for name in _environment(compiler=compiler).keys() - was.keys():
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


def _modes() -> tuple[int, int, bool, bool]:
    """How many of torch's modes are entered, and whether its profiler runs, and inference."""
    c = sys.modules["torch"]._C
    running = c._autograd._profiler_enabled(), sys.modules["torch"].is_inference_mode_enabled()
    return c._len_torch_function_stack(), c._len_torch_dispatch_stack(), *running


def _leave_modes(was: tuple[int, int, bool, bool]) -> None:
    c, (functions, dispatched, *_) = sys.modules["torch"]._C, _modes()
    for _ in range(functions - was[0]):
        c._pop_torch_function_stack()
    for _ in range(dispatched - was[1]):
        c._pop_torch_dispatch_stack()


def _interpreted() -> bool:
    """Triton's own functions are its interpreter's for good if that was asked for when Triton was loaded."""
    loaded = sys.modules.get("triton.language.standard")
    return type(getattr(loaded, "cdiv", None)).__name__ == "InterpretedFunction"


def _figures() -> set[int]:
    return {*sys.modules["matplotlib._pylab_helpers"].Gcf.figs}


def _close_figures(was: set[int]) -> None:
    for number in _figures() - was:
        sys.modules["matplotlib._pylab_helpers"].Gcf.destroy(number)


KINDS = (
    Kind("environment", _environment, _set_environment),
    Kind(UNTOLD, sys.getrecursionlimit, sys.setrecursionlimit),  # the compiler's too
    Kind(f"its variables {UNTOLD}", partial(_environment, compiler=True), partial(_set_environment, compiler=True)),
    Kind("signal handlers", _handlers, _set_handlers),
    Kind("blocked signals", lambda: signal.pthread_sigmask(signal.SIG_BLOCK, ()),
         lambda was: signal.pthread_sigmask(signal.SIG_SETMASK, was)),
    Kind("processors", lambda: os.sched_getaffinity(0), lambda was: os.sched_setaffinity(0, was)),
    Kind("locale", lambda: locale.setlocale(locale.LC_ALL), lambda was: locale.setlocale(locale.LC_ALL, was)),
    Kind("garbage collector", lambda: (gc.isenabled(), gc.get_threshold()),
         lambda was: (gc.enable() if was[0] else gc.disable(), gc.set_threshold(*was[1]))),
    *map(_in_list, ("path", "argv")),
    _within("builtins", lambda: vars(builtins), but=("_",)),
    *map(_attribute, ATTRIBUTES.split()),
    *map(_functions, FUNCTIONS.strip().splitlines()),
    Kind("torch's default device", lambda: sys.modules["torch"].get_default_device(), _set_device, "torch"),
    Kind("torch's modes", _modes, _leave_modes, "torch"),  # behind the device, which is one of them
    Kind("torch's precision of float32", precisions, set_precisions, "torch"),
    _within("torch.set_printoptions", lambda: vars(sys.modules["torch"]._tensor_str.PRINT_OPTS), "torch"),
    *(Kind(f"numpy.{name}", lambda get=get: getattr(sys.modules["numpy"], get)(),
           lambda was, name=name: getattr(sys.modules["numpy"], name)(**was), "numpy")
      for get, name in (("geterr", "seterr"), ("get_printoptions", "set_printoptions"))),
    Kind("Triton is its interpreter", _interpreted, lambda was: None),
    _within("matplotlib.rcParams", lambda: sys.modules["matplotlib"].rcParams, "matplotlib", but=("backend",)),
    Kind("matplotlib's figures", _figures, _close_figures, "matplotlib._pylab_helpers"),
)  # fmt: skip


class _AsLoaded(PathFinder):
    """Reads a library's settings when it is loaded: a test that loads it may change them at once."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec, whose loader also fills AS_LOADED."""
        kinds = [kind for kind in KINDS if kind.module == name != "sys"]
        spec = super().find_spec(name, path, target) if kinds else None
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def and_read(module: ModuleType) -> None:
                load(module)
                AS_LOADED.update({kind.name: _read(kind) for kind in kinds})

            spec.loader.exec_module = and_read  # type: ignore[method-assign]
        return spec


AS_LOADED: State = {}
sys.meta_path.insert(0, _AsLoaded)
