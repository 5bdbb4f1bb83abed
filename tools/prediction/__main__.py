"""How far predicted times are from measured ones, case by case.

python -m tools.prediction claims --source recorded:h200   # each claim with its verdict
python -m tools.prediction record --device cuda            # measure the cases, with the options of `brrr record`
python -m tools.prediction rows recorded:h200              # every row as CSV: measured, predicted, the other estimates
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence

from brrr.core.errors import BrrrError
from brrr.course.lessons import claims_table
from brrr.course.sources import record, source
from tools.prediction.experiment import EXPERIMENT


def main(argv: Sequence[str]) -> int:
    """Run one of the commands; 2 for a call that cannot be understood, and where there is nothing to show."""
    command, *rest = argv or [""]
    if command in ("claims", "record"):
        return {"claims": claims_table, "record": record}[command].main(rest, (EXPERIMENT,))
    if command != "rows":
        print(__doc__, file=sys.stderr)
        return 2
    from tools.prediction.rows import rows_of

    try:
        found = [row.record for row in rows_of(EXPERIMENT, source(*rest))]
    except BrrrError as error:
        print(error, file=sys.stderr)
        return 2
    writer = csv.DictWriter(sys.stdout, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
