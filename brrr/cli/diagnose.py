"""`brrr diagnose`: what limits a saved trace of torch's profiler, or a script that is run now.

python -m brrr diagnose trace.json.gz                 # a trace: nothing runs
python -m brrr diagnose trace.json --device h200      # with another device's figures
python -m brrr diagnose train.py --steps 10           # a script with its arguments, under the profiler, for 30 seconds
python -m brrr diagnose -m package.train --steps 10   # a module, as `python -m` runs it
python -m brrr diagnose --html page.html trace.json   # or --json: to keep
"""

import _thread
import argparse
import atexit
import io
import math
import os
import runpy
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from brrr.cli import own_error
from brrr.core import units
from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.files import is_own, write_atomically
from brrr.diagnosis.diagnosing import of_file
from brrr.diagnosis.report import BEGIN
from brrr.gpu import free_bytes, used_bytes
from brrr.timing.sampler import BUSY, cpu_seconds, crowded, elsewhere_s
from brrr.tracing.lines import LineSpans
from brrr.tracing.loaders import loaders_told
from brrr.tracing.trace_file import TraceFileError

GRACE_S = 10
"""How long a script that was ended may still take: to save what it has, or for the call it is in."""
EXIT = os._exit
ELSEWHERE = 0.01
"""From this share of a script's time on, what other processes computed for it is told."""


def main(argv: Sequence[str]) -> int:
    """`brrr diagnose`: 0 when it went well, 1 where the script failed, 2 for an error, 130 for Ctrl-C in the script."""
    before = threading.enumerate()
    code = _diagnosed(argv)
    if _threads(before):  # the script's, which Python would wait for
        sys.stdout.flush()
        EXIT(code)
    return code


def _threads(before: Sequence[threading.Thread]) -> list[threading.Thread]:
    """The threads since then that Python waits for at its end."""
    return [each for each in threading.enumerate() if not each.daemon and each not in before]


def _diagnosed(argv: Sequence[str]) -> int:
    options, arguments = _options(argv)
    html = options.html.resolve() if options.html is not None else None
    code, ended, is_script = 0, "", _is_script(options)
    folder = Path(tempfile.mkdtemp())  # which the end of a script's fork does not remove
    try:
        for name in ("seconds", "memory"):
            if not math.isfinite(getattr(options, name) or 0):
                raise ArgumentError("brrr diagnose", f"--{name}", getattr(options, name), "a finite number")
        if html is not None and not (html.parent.is_dir() and is_own(html, BEGIN)):
            expected = "a new file, or a page that this wrote, in a folder that exists"
            raise ArgumentError("brrr diagnose", "--html", options.html, expected)
        if is_script and not options.m and not options.path.is_file():
            raise ArgumentError("brrr diagnose", "path", str(options.path), "a script that exists")
        if swallowed := [each for each in arguments if each.split("=")[0] in ("--html", "--json")]:
            print(f"brrr diagnose: {swallowed[0]} goes to the script; ours stand before its path", file=sys.stderr)
        path = folder / "trace.json" if is_script else options.path
        before = cpu_seconds()
        if is_script:
            code, ended = run_script(options, arguments, path)
        flags = (BUSY,) * (is_script and crowded(before, cpu_seconds()))
        found = of_file(path, options.device, is_script, flags)
        print(found.to_json() if options.json else found.details())
        if html is not None:
            write_atomically(html, found.to_html())
            print(f"Written to {html}", file=sys.stderr)
    except TraceFileError as error:
        nothing = f"the script {ended or 'ran to its end'}\nNo torch operator ran in its process: nothing is diagnosed"
        print(f"brrr diagnose: {nothing if is_script else error}", file=sys.stderr)
        return code or 2
    except (BrrrError, OSError) as error:
        print(f"brrr diagnose: {str(error).removeprefix('brrr diagnose: ')}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if ended:
        print(f"brrr diagnose: the script {ended}\nWhat it did until then is told above", file=sys.stderr)
    return code


def _options(argv: Sequence[str]) -> tuple[Any, Sequence[str]]:
    """brrr's options, and what stands behind a script; behind a trace they are brrr's, too."""
    options = _parser().parse_args(argv)
    place = len(argv) - len(options.arguments)
    place -= argv[place - 1] == "--"  # which argparse leaves out, and Python hands on
    if _is_script(options):
        return options, argv[place:]
    return _parser().parse_args([*argv[: place - 1], *argv[place:], str(options.path)]), ()


def _is_script(options: Any) -> bool:
    """Whether to run it: a module, a script by its name or first line; what is named as a trace is only read."""
    found = options.m or options.path.suffix == ".py"
    with suppress(OSError), options.path.open("rb") as file:
        found |= options.path.suffix not in (".json", ".gz") and file.read(2) == b"#!"
    return bool(found)


def _parser() -> argparse.ArgumentParser:
    description = (__doc__ or "").partition("\n")[0]
    epilog = "What stands behind a script are its own arguments."
    parser = argparse.ArgumentParser(prog="brrr diagnose", description=description, epilog=epilog)
    parser.add_argument("--device", help="whose figures to compare with, such as h200 (default: the trace's device)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that needs nothing else, too")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="end a script after S (default: 30)")
    parser.add_argument("--memory", type=float, metavar="GB", help="end a script whose process has grown by so much "
                        "(default: half of what is free)")  # fmt: skip
    parser.add_argument("-m", action="store_true", help="run the module of that name as a script, as python -m does")
    parser.add_argument("path", type=Path, help="a trace (.json, .json.gz), or a script (.py, or what starts with #!)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def run_script(options: Any, arguments: Sequence[str], trace: Path) -> tuple[int, str]:
    """Run a script as `python path arguments` would, under torch's profiler, and save the trace.

    Returns the exit status and how it ended, "" where that was its end: what it did until then is in the trace.
    """
    from torch.optim.optimizer import register_optimizer_step_post_hook

    from brrr.gpu import gpu_here
    from brrr.tracing.recording import session

    argv, first = [str(options.path), *arguments], os.getcwd() if options.m else str(options.path.resolve().parent)
    process, began, before_s = os.getpid(), time.monotonic(), elsewhere_s()
    code, ended, limits, before = 0, "", [], threading.enumerate()  # type: int, str, list[str], list[threading.Thread]
    with session("diagnose", gpu_here() or "cpu", record_shapes=True) as made:
        try:
            with (
                _streams() as shown, _limited(options.seconds, options.memory, limits, shown), _as_main(argv, first),
                LineSpans() as lines, loaders_told(), register_optimizer_step_post_hook(lines.stepped),
            ):  # fmt: skip
                try:
                    _run(options.path, options.m)
                finally:  # as Python does
                    if os.getpid() != process:  # a fork of the script's ends where the script does, too
                        _end(sys.exc_info()[1])
                    for each in () if limits else _threads(before):
                        each.join()
        except SystemExit as error:
            code, ended = (0, "") if error.code in (None, 0) else (1, f"ended by SystemExit: {error.code}")
        except KeyboardInterrupt:
            code, ended = (0, limits[0]) if limits else (130, "was ended by Ctrl-C")
        except Exception as error:
            code, ended = 1, f"ended by {own_error(error)}"
    made.export_chrome_trace(str(trace))
    if (spent_s := elsewhere_s() - before_s) > ELSEWHERE * (time.monotonic() - began):
        said = f"other processes computed for {units.seconds(spent_s)}: what they did is not recorded"
        print(f"brrr diagnose: {said}", file=sys.stderr)
    return code, ended


@contextmanager
def _as_main(argv: list[str], first: str) -> Iterator[None]:
    """The process is the script's inside, and again at its end, for what the script runs there (`atexit`)."""
    kept = _process()
    _become(ModuleType("__main__"), argv, [first, *sys.path], kept[3])
    try:
        yield
    finally:
        atexit.register(_become, *_process())  # what is registered last runs first
        _become(*kept)


def _process() -> tuple[ModuleType, list[str], list[str], str]:
    """What each program has of its own: the main module, its arguments, where it imports from, the folder."""
    folder = ""
    with suppress(OSError):  # it may have been removed
        folder = os.getcwd()
    return sys.modules["__main__"], sys.argv, sys.path, folder


def _become(main: ModuleType, argv: list[str], path: list[str], folder: str) -> None:
    sys.modules["__main__"], sys.argv, sys.path = main, argv, path
    with suppress(OSError):
        os.chdir(folder)


def _run(path: Path, is_module: bool) -> None:
    if is_module:
        runpy._run_module_as_main(str(path))  # type: ignore[attr-defined]  # as Python itself does
    else:
        main, file = sys.modules["__main__"], os.path.join(os.getcwd(), path)
        main.__file__ = file
        with io.open_code(file) as code:
            made = compile(code.read(), file, "exec", dont_inherit=True)
        exec(made, main.__dict__)


def _end(error: BaseException | None) -> NoReturn:
    """As Python ends: what it says of the error, the threads, what was registered for the end, what was printed."""
    code: Any = error.code if isinstance(error, SystemExit) else int(error is not None)
    if not isinstance(error, SystemExit | None):
        sys.excepthook(type(error), error, error.__traceback__)
    elif not isinstance(code, int | None):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    EXIT(int(code or 0) & 0xFF)


@contextmanager
def _streams() -> Iterator[int]:
    """Open behind the block as before it, whatever it closes; and where it leaves at once, that is said.

    Gives the file descriptor of a copy of stderr.
    """
    kept = [(name, getattr(sys, name), fd, os.dup(fd)) for fd, name in ((1, "stdout"), (2, "stderr"))]
    for name, stream, *_ in kept:
        setattr(sys, name, getattr(stream, "stream", stream))  # what a script prints is its own
    process = os.getpid()

    def left(status: int) -> NoReturn:
        own = os.getpid() == process  # and no fork, which ends so too
        if own:
            _say(kept[1][3], f"the script ended itself by os._exit({status}): nothing is diagnosed")
        EXIT(status or (2 if own else 0))

    os._exit = left
    try:
        yield kept[1][3]
    finally:
        os._exit = EXIT
        for name, stream, fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)
            setattr(sys, name, os.fdopen(fd, "w", closefd=False) if stream.closed else stream)


def _say(fd: int, text: str) -> None:
    with suppress(OSError):
        os.write(fd, f"brrr diagnose: {text}\n".encode())


@contextmanager
def _limited(seconds: float, gb: float | None, said: list[str], shown: int) -> Iterator[None]:
    """Interrupt the block, as Ctrl-C does, when it has taken so long or so much memory; `said` then tells it.

    One that goes on is stopped with its process, for nothing else stops it; `shown` is where that is written.

    The profiler keeps each event in memory, tens of megabytes a second.
    """
    over = threading.Event()
    most = gb * 1e9 if gb is not None else free_bytes("cpu") / 2
    most, until_s = most + used_bytes("cpu"), time.monotonic() + seconds

    def watch() -> None:
        sent = 0
        while not over.wait(0.1 if not said else 1.0):  # again, where a script has caught it
            held = used_bytes("cpu")
            if not said and time.monotonic() > until_s:
                said.append(f"was ended after {seconds:g} s; --seconds S gives it longer")
            elif not said and held > most:
                said.append(f"was ended with {most / 1e9:.3g} GB in memory; --memory GB lets it grow by more")
            if sent > GRACE_S:
                resisted = f"It went on for {GRACE_S:g} s and was stopped: nothing is diagnosed"
                _say(shown, f"the script {said[0]}\n{resisted}")
                EXIT(2)
            sent += bool(said)
            if said and sys.platform == "win32":
                _thread.interrupt_main()
            elif said:  # a signal also ends its waiting
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it may be ignored
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
