"""`brrr time`: how long a statement takes, at what rates, and what limits it; or which of several is faster.

python -m brrr time "torch.relu(torch.ones(5))"
python -m brrr time -v "f(x)" --setup "from mine import f, x" --device cuda --cold
python -m brrr time --compare "x.relu()" "x.clamp(min=0)" --setup "x = torch.randn(4096, 4096)"
"""

import argparse
import ast
import csv
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any

from brrr.cli import own_error
from brrr.core.errors import BrrrError
from brrr.core.measurement import FIELDS, Measurement
from brrr.diagnosis.timed import Timed, called, steps_from, timed
from brrr.timing.comparing import CallComparison, compare_calls


def main(argv: Sequence[str]) -> int:
    """`brrr time`: 0 when it went well, 1 where the statement fails, 2 for an option that cannot be used."""
    parser = _parser()
    options = parser.parse_args(argv)
    if (len(options.statement) > 1) != options.compare:
        parser.error("--compare takes two statements or more, and several statements take --compare")
    cache: Any = "cold" if options.cold else "hot"
    try:
        names = {"__name__": "__brrr__", **imported(options.setup, *options.statement)}
        sys.path.append("")  # behind what is installed, and for the statement alone
        try:
            made = enumerate(zip(options.statement, steps_from(options.setup, options.statement, names), strict=True))
            steps = {code + f" ({at})" * (code in options.statement[:at]): step for at, (code, step) in made}
            firsts_s = [called(step) for step in steps.values()]
        finally:
            sys.path[:] = filter(None, sys.path)
        how: Any = {"device": options.device, "cache": cache, "budget_s": options.budget}
        found: Timed | CallComparison
        if options.compare:
            found = compare_calls(steps, field="span_s" if options.cold else "period_s", **how)
        else:
            found = timed(*steps.values(), first_s=firsts_s[0], **how)
    except BrrrError as error:
        print(f"brrr time: {error}", file=sys.stderr)
        return 2
    except (Exception, SystemExit) as error:
        if not isinstance(error, SyntaxError) and not _of_the_user(error):
            raise
        print(f"brrr time: {own_error(error)}", file=sys.stderr)
        return 1
    if options.csv:
        calls = {options.statement[0]: found.measurement} if isinstance(found, Timed) else found.calls
        write_csv(calls, found if isinstance(found, CallComparison) else None)
    elif options.json:
        print(found.to_json())
    else:
        notes = found.measurement.notes if isinstance(found, Timed) else ()
        print(found.details() if options.verbose else "\n".join([str(found), *notes]))
    return 0


def imported(*codes: str) -> dict[str, Any]:
    """The packages that pieces of code name and do not set, imported, which is told; what is not installed is left.

    >>> [*imported("import json as js; x = js.loads(text)\\nmath.sqrt(x.real) + math.pi")]
    ['math']
    """
    nodes = [node for code in codes for node in ast.walk(ast.parse(code, "<brrr>"))]
    used = {each.value.id for each in nodes if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name)}
    used -= {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    set_so = (getattr(each, "asname", None) or getattr(each, "name", getattr(each, "arg", "")) for each in nodes)
    used -= {str(each).partition(".")[0] for each in set_so}
    found = {name: import_module(name) for name in sorted(used) if find_spec(name) is not None}
    if found:
        print(f"brrr time: imported {', '.join(found)}", file=sys.stderr)
    return found


def write_csv(calls: Mapping[str, Measurement], compared: CallComparison | None) -> None:
    """A line for each time of each call, in seconds; where calls are compared, with the ratio of those that are."""
    sheet = csv.writer(sys.stdout, lineterminator="\n")
    sheet.writerow(["call", "time", "median_s", "low_s", "high_s", "n", "ratio", "ratio_low", "ratio_high", "verdict"])
    for (name, m), field in product(calls.items(), FIELDS):
        if (time := m.get(field)) is not None:
            ratio = compared.ratios.get(name) if compared and compared.field == field else None
            said = [ratio.median, ratio.low, ratio.high, compared.verdicts[name]] if ratio and compared else [""] * 4
            sheet.writerow([name, field, time.median, time.low, time.high, time.n, *said])


def _of_the_user(error: BaseException) -> bool:
    """Whether it comes from the statement or the set-up, and is no error of ours."""
    return any(each.filename in ("<brrr>", "<setup>") for each in traceback.extract_tb(error.__traceback__))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="brrr time", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("statement", nargs="+", help="what is measured; several lines are fine")
    parser.add_argument("--compare", action="store_true", help="measure several statements in turns: which is faster?")
    parser.add_argument("--setup", default="", help="what is run before, unmeasured")
    parser.add_argument("--device", metavar="KIND", help="cpu, cuda, mps, … (default: the GPU if torch uses one)")
    parser.add_argument("--cold", action="store_true", help="with empty caches (on a GPU)")
    parser.add_argument("--budget", type=float, default=0.2, metavar="S", help="how long to measure (default: 0.2 s)")
    parser.add_argument("-v", "--verbose", action="store_true", help="all times, and the operators")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of text")
    form.add_argument("--csv", action="store_true", help="print a table for a spreadsheet")
    return parser
