"""`brrr diagnose`: what limits a saved trace of torch's profiler, or a script that is run now.

python -m brrr diagnose trace.json.gz                 # a trace: nothing runs
python -m brrr diagnose trace.json --device h200      # with another device's figures
python -m brrr diagnose train.py --steps 10           # a script with its arguments, under the profiler, for 30 seconds
python -m brrr diagnose --html page.html trace.json   # or --json: to keep
"""

import _thread
import argparse
import math
import os
import runpy
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from brrr.cli import own_error
from brrr.core.errors import ArgumentError, BrrrError
from brrr.core.files import write_atomically
from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.gpu import free_bytes, is_cpu, used_bytes
from brrr.gpu.device import default_device_kind
from brrr.roofline.device_model import Where, known_here
from brrr.roofline.peaks import MissingPeakError
from brrr.tracing.trace_file import TraceFileError

GRACE_S = 10
"""How long a script that was ended may still take: to save what it has, or for the call it is in."""
EXIT = os._exit


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
    script = next((place for place, each in enumerate(argv) if each.endswith(".py")), len(argv))
    options, arguments = _parser().parse_args(argv[: script + 1]), argv[script + 1 :]
    html = options.html.resolve() if options.html is not None else None
    code, ended, is_script = 0, "", options.path.suffix == ".py"
    try:
        for name in ("seconds", "memory"):
            if not math.isfinite(getattr(options, name) or 0):
                raise ArgumentError("brrr diagnose", f"--{name}", getattr(options, name), "a finite number")
        if html is not None and not html.parent.is_dir():
            raise ArgumentError("brrr diagnose", "--html", options.html, "a file in a folder that exists")
        if is_script and not options.path.is_file():
            raise ArgumentError("brrr diagnose", "path", str(options.path), "a script that exists")
        if swallowed := [each for each in arguments if each.split("=")[0] in ("--html", "--json")]:
            print(f"brrr diagnose: {swallowed[0]} goes to the script; ours stand before its path", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json" if is_script else options.path
            if is_script:
                code, ended = run_script(options.path, arguments, path, options.seconds, options.memory)
            found = diagnose_trace(path, options.device or (_this_cpu() if is_script else None))
        print(found.to_json() if options.json else found.details())
        if html is not None:
            write_atomically(html, found.to_html())
            print(f"Written to {html}", file=sys.stderr)
    except TraceFileError as error:
        nothing = f"the script {ended or 'ran to its end'}\nNo operator of torch ran until then: nothing is diagnosed"
        print(f"brrr diagnose: {nothing if is_script else error}", file=sys.stderr)
        return code or 2
    except (BrrrError, OSError) as error:
        print(f"brrr diagnose: {str(error).removeprefix('brrr diagnose: ')}", file=sys.stderr)
        return 2
    if ended:
        print(f"brrr diagnose: the script {ended}\nWhat it did until then is told above", file=sys.stderr)
    return code


def _this_cpu() -> Where | None:
    """The figures of the CPU that ran a script; None beside a GPU, which its trace names, and where none are known."""
    with suppress(MissingPeakError):
        return known_here("cpu") if is_cpu(default_device_kind()) else None
    return None


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
    parser.add_argument("path", type=Path, help="a trace (.json or .json.gz), or a script (.py)")
    return parser


def run_script(path: Path, arguments: Sequence[str], trace: Path, seconds: float, gb: float | None) -> tuple[int, str]:
    """Run a script as `python path arguments` would, under torch's profiler, and save the trace.

    Returns the exit status and how it ended, "" where that was its end: what it did until then is in the trace.
    """
    import torch

    from brrr.tracing.recording import session

    kept, place, folder = sys.argv, sys.path[0], Path.cwd()
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.resolve().parent)
    code, ended, limits, before = 0, "", [], threading.enumerate()  # type: int, str, list[str], list[threading.Thread]
    with session("diagnose", torch.cuda.is_available(), record_shapes=True) as made:
        try:
            with _streams() as shown, _limited(seconds, gb, limits, shown):
                try:
                    runpy.run_path(str(path), run_name="__main__")
                finally:  # as Python does
                    for each in () if limits else _threads(before):
                        each.join()
        except SystemExit as error:
            code, ended = (0, "") if error.code in (None, 0) else (1, f"ended by SystemExit: {error.code}")
        except KeyboardInterrupt:
            code, ended = (0, limits[0]) if limits else (130, "was ended by Ctrl-C")
        except Exception as error:
            code, ended = 1, f"ended by {own_error(error)}"
        finally:
            sys.argv, sys.path[0] = kept, place
            os.chdir(folder)
    made.export_chrome_trace(str(trace))
    return code, ended


@contextmanager
def _streams() -> Iterator[int]:
    """Open behind the block as before it, whatever it closes; and where it leaves at once, that is said.

    Gives the file descriptor of a copy of stderr.
    """
    kept = [(name, getattr(sys, name), fd, os.dup(fd)) for fd, name in ((1, "stdout"), (2, "stderr"))]
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
