"""The command line: `brrr doctor | calibrate | time | compare | diagnose`, and what other distributions add to it."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path:  # `python -m` looks into the current folder first
    del sys.path[0]
    sys.path += {os.path.dirname(os.path.dirname(os.path.abspath(__file__)))} - {*sys.path}  # a checkout: the course

from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from importlib.metadata import entry_points
from types import MappingProxyType

from brrr.cli import show_anything
from brrr.core import __version__
from brrr.core.errors import BrrrError, extras
from brrr.core.private import keep_compiled_code_private
from brrr.core.shown import shown

COMMANDS = {
    "doctor": ("brrr.cli.doctor", "what is here, and what would enable more"),
    "calibrate": ("brrr.cli.calibrate", "measure what this device can do at best"),
    "time": ("brrr.cli.time", "how long a statement takes, and what limits it: like timeit, but true on a GPU"),
    "compare": ("brrr.cli.compare", "whether calls became slower, by two files of `brrr time --json`: for a CI"),
    "diagnose": ("brrr.cli.diagnose", "what limits a saved trace, or a script, and what would help"),
}
"""A command's module, whose `main` runs it, and its line of help."""

ADDED = "brrr.commands"
"""The group of entry points that add to the commands: each is such a mapping."""


def commands() -> Mapping[str, tuple[str, str]]:
    """All commands: the package's own, and those of installed distributions such as brrr-course."""
    added: dict[str, tuple[str, str]] = {}
    for point in entry_points(group=ADDED):
        try:
            added |= point.load()
        except ImportError as error:  # what is broken there takes nothing away here
            print(f"brrr: the commands of {point.value} are missing: {error}", file=sys.stderr)
    return {**added, **COMMANDS}


def main(argv: list[str] | None = None, added: Mapping[str, tuple[str, str]] = MappingProxyType({})) -> int:
    """Run one of the commands, or of those added; the exit code is 0, or 2 for a call that cannot be understood."""
    show_anything()
    with redirect_stdout(shown(sys.stdout)), redirect_stderr(shown(sys.stderr)):
        return _run(sys.argv[1:] if argv is None else argv, added)


def _run(arguments: list[str], added: Mapping[str, tuple[str, str]]) -> int:
    if arguments in (["--version"], ["-V"]):
        print(f"brrr {__version__}")
        return 0
    known = {**added, **commands()}
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage(known))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in known:
        print(f"brrr: no command {name!r}\n\n{usage(known)}", file=sys.stderr)
        return 2
    keep_compiled_code_private()
    try:
        with extras(f"`brrr {name}`"):
            return int(import_module(known[name][0]).main(rest))
    except BrrrError as error:
        print(f"brrr {name}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        try:
            os.write(sys.stdout.fileno(), b"\n")  # fails where its reader is gone, whatever is buffered
        except BrokenPipeError:  # of `brrr claims | head`, which has read enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        raise  # of another pipe, as to a process of its own that ended
    except KeyboardInterrupt:
        print(f"\nbrrr {name}: interrupted", file=sys.stderr)
        return 130


def usage(known: Mapping[str, tuple[str, str]]) -> str:
    """The commands, a line each."""
    lines = [f"  brrr {name:<10} {what}" for name, (_, what) in known.items()]
    if len(known) == len(COMMANDS):
        lines += ["", "The lessons and their commands are in the distribution brrr-course."]
    return "\n".join(["usage: brrr COMMAND [--help]", "", *lines])


if __name__ == "__main__":
    sys.exit(main())
