"""How far predicted times are from measured ones, case by case.

python -m tools.prediction claims --source recorded:h200   # each claim with its verdict
python -m tools.prediction record --device cuda            # measure the cases, with the options of `brrr record`
python -m tools.prediction rows recorded:h200              # every row as CSV, measured and predicted; errors on stderr
python -m tools.prediction rows operators recorded:h200    # the same of operators and blocks
python -m tools.prediction rows operators_drawn recorded:h200    # and of these in sizes that were drawn

`claims` and `record` take the experiments' names, too: `record operators`, say; without one they take all.
"""

import csv
import sys
from collections.abc import Sequence

from brrr.core.errors import BrrrError
from brrr_course.lessons import claims_table
from brrr_course.nouns.experiment import Experiment
from brrr_course.sources import record, source
from tools.prediction.experiment import EXPERIMENT
from tools.prediction.operators.experiment import AGAIN, DRAWN
from tools.prediction.operators.experiment import EXPERIMENT as OPERATORS

EXPERIMENTS = EXPERIMENT, OPERATORS, DRAWN, AGAIN


def main(argv: Sequence[str]) -> int:
    """Run one of the commands; 2 for a call that cannot be understood, and where there is nothing to show."""
    command, *rest = argv or [""]
    if command in ("claims", "record"):
        return {"claims": claims_table, "record": record}[command].main(rest, EXPERIMENTS)
    if command != "rows":
        print(__doc__, file=sys.stderr)
        return 2
    names = {each.name: each for each in EXPERIMENTS}
    named = names[rest.pop(0)] if rest and rest[0] in names else EXPERIMENT
    try:
        found = _of_prediction(rest) if named is EXPERIMENT else _of_operators(named, rest)
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    writer = csv.DictWriter(sys.stdout, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return 0


def _of_prediction(rest: Sequence[str]) -> list[dict[str, str | float]]:
    from tools.prediction.claims import errors_text
    from tools.prediction.rows import rows_of

    found = rows_of(EXPERIMENT, source(*rest))
    for kind in (*dict.fromkeys(row.case.kind for row in found), "case"):
        print(f"{kind}s: {errors_text([row for row in found if kind in (row.case.kind, 'case')])}", file=sys.stderr)
    return [row.record for row in found]


def _of_operators(named: Experiment, rest: Sequence[str]) -> list[dict[str, str | float]]:
    """A record of each case; their errors by half and family go to stderr."""
    from tools.prediction.operators.rows import operator_rows, records, summary
    from tools.prediction.rows import rows_of

    found = records(rows_of(named, source(*rest), operator_rows))
    print(summary(found), file=sys.stderr)
    return found


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
