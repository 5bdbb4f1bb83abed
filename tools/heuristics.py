"""nvMatmulHeuristics beside `brrr.predict` on the recorded products: median errors.

python -m tools.heuristics   # needs the extra `peer`
"""

from dataclasses import replace
from statistics import median

from brrr.counting.cost import Matmul
from brrr_course.experiments import experiment
from brrr_course.experiments.gemm.claims import SIZE, foretold
from brrr_course.experiments.gemm.peer import heuristics_s
from brrr_course.nouns.source import Evidence
from brrr_course.sources import source


def main() -> None:
    """All columns of the sweep, and those whose rows begin at 16 bytes."""
    evidence = Evidence(experiment("gemm"), source("recorded:h200"))
    for dtype, whole in (("float32", 4), ("bfloat16", 8)):
        measured, ours = foretold(evidence, dtype)
        plain = Matmul(SIZE, SIZE, SIZE, dtype=dtype)
        theirs = {n: heuristics_s(replace(plain, n=n)) or 0.0 for n in measured}
        for label, every in (("all", 1), ("on 16 B", whole)):
            of = [n for n in measured if n % every == 0]
            errors = [median(abs(each[n] / measured[n] - 1) for n in of) for each in (theirs, ours)]
            print(f"{dtype}, {label} ({len(of)}): nvMatmulHeuristics {errors[0]:.1%}, brrr.predict {errors[1]:.1%}")


if __name__ == "__main__":
    main()
