"""The command line: `brrr lab | doctor | record | join | claims | calibrate | time | diagnose | site | class | ...`."""

from __future__ import annotations

import sys
from importlib import import_module

from brrr.core import __version__
from brrr.core.errors import BrrrError

COMMANDS = {
    "lab": ("brrr.cli.lab", "copy the lessons into work/ and open them in JupyterLab"),
    "doctor": ("brrr.cli.doctor", "what is here, and which lessons therefore run live"),
    "record": ("brrr.course.sources.record", "measure the course's experiments on this machine and keep them"),
    "join": ("brrr.course.sources.folders", "put recordings together that several GPUs of one model made"),
    "claims": ("brrr.course.lessons.claims_table", "every claim of the lessons with its verdict"),
    "calibrate": ("brrr.cli.calibrate", "measure what this device can do at best"),
    "time": ("brrr.cli.time", "how long a statement takes, and what limits it: like timeit, but true on a GPU"),
    "diagnose": ("brrr.cli.diagnose", "what limits a saved trace, or a script, and what would help"),
    "site": ("brrr.cli.site", "the course as static pages, which need no installation"),
    "class": ("brrr.cli.classroom", "share this machine's GPUs with a class, which then measures live"),
    "counters": ("tools.counters.command", "compare the bytes counted with those that the GPU's counters see"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one of the commands; the exit code is 0, or 2 for a call that cannot be understood."""
    arguments = sys.argv[1:] if argv is None else argv
    if arguments in (["--version"], ["-V"]):
        print(f"brrr {__version__}")
        return 0
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage())
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"brrr: no command {name!r}\n\n{usage()}", file=sys.stderr)
        return 2
    try:
        return int(import_module(COMMANDS[name][0]).main(rest))
    except BrrrError as error:
        print(f"brrr {name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nbrrr {name}: interrupted; what was finished is kept", file=sys.stderr)
        return 130


def usage() -> str:
    """The commands, a line each."""
    lines = [f"  brrr {name:<9} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(["usage: brrr COMMAND [--help]", "", *lines])


if __name__ == "__main__":
    sys.exit(main())
