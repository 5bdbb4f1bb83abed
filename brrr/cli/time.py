"""`brrr time`: how long a statement takes, at what rates, and what limits it.

python -m brrr time "torch.relu(x)" --setup "import torch; x = torch.randn(4096, 4096)"
python -m brrr time -v "f(x)" --setup "from mine import f, x" --device cuda --cold
"""

import argparse
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from brrr.cli import own_error
from brrr.core.errors import BrrrError
from brrr.diagnosis.timed import called, step_from, timed


def main(argv: Sequence[str]) -> int:
    """`brrr time`: 0 when it went well, 1 where the statement fails, 2 for an option that cannot be used."""
    options = _parser().parse_args(argv)
    cache: Any = "cold" if options.cold else "hot"
    sys.path.append("")  # behind what is installed, and for the statement alone
    try:
        try:
            step = step_from(options.setup, options.statement, {"__name__": "__brrr__"})
            first_s = called(step)
        finally:
            sys.path[:] = filter(None, sys.path)
        found = timed(step, device=options.device, cache=cache, budget_s=options.budget, first_s=first_s)
    except BrrrError as error:
        print(f"brrr time: {error}", file=sys.stderr)
        return 2
    except (Exception, SystemExit) as error:
        if not isinstance(error, SyntaxError) and not _of_the_user(error):
            raise
        print(f"brrr time: {own_error(error)}", file=sys.stderr)
        return 1
    short = "\n".join([found.text(), *found.measurement.notes])
    print(found.to_json() if options.json else found.details() if options.verbose else short)
    return 0


def _of_the_user(error: BaseException) -> bool:
    """Whether it comes from the statement or the set-up, and is no error of ours."""
    return any(each.filename in ("<brrr>", "<setup>") for each in traceback.extract_tb(error.__traceback__))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr time", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("statement", help="what is measured; several lines or statements are fine")
    parser.add_argument("--setup", default="", help="what is run before, unmeasured")
    parser.add_argument("--device", metavar="KIND", help="cpu, cuda, mps, … (default: the GPU if torch uses one)")
    parser.add_argument("--cold", action="store_true", help="with empty caches (on a GPU)")
    parser.add_argument("--budget", type=float, default=0.2, metavar="S", help="how long to measure (default: 0.2 s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="all times, and the operators")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    return parser
