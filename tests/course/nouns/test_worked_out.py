"""Verdicts worked out in plain arithmetic on recorded rows: what the interpreter must make of the same rows."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from formulas import Kept

from brrr.core.measurement import FIELDS, Estimate, Measurement
from brrr_course.experiments import experiment
from brrr_course.nouns.claim import Claim, functions_of, scope_of
from brrr_course.nouns.expression import compute, estimate, flat
from brrr_course.nouns.source import Evidence

CASES = tomllib.loads(Path(__file__).with_name("worked_out.toml").read_text(encoding="utf-8"))["claim"]
DEVICES = {"h200": "NVIDIA H200", "h100": "NVIDIA H100 80GB HBM3", "cpu": "a CPU"}


def evidence(case: dict[str, Any], claim: Claim) -> Evidence:
    """The case's rows and no others."""
    rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}
    for _, variant, point, name, *value in case["rows"]:
        row = rows.setdefault(variant, {}).setdefault(tuple(point), {})
        if name not in ("flop", "bytes"):  # the experiment computes them from the point
            row[name] = Estimate(*value) if name in FIELDS else tuple(value[0]) if name == "flags" else value[0]
    known = {variant: {key: Measurement(**given) for key, given in found.items()} for variant, found in rows.items()}
    source = Kept(known, f"recorded:{case['device']}", DEVICES[case["device"]])
    return Evidence(experiment(claim.entry.experiment), source)


def letters(case: dict[str, Any]) -> dict[str, Any]:
    """The values by their letters, and the ends of the intervals."""
    found: dict[str, Any] = {"log2": math.log2}
    for letter, _, _, _, *value in case["rows"]:
        found[letter] = value[0]
        found |= dict(zip((f"{letter}_low", f"{letter}_high"), value[1:3], strict=False))
    return found


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']}-{case['device']}" for case in CASES])
def test_the_interpreter_finds_what_plain_arithmetic_does(case: dict[str, Any]) -> None:
    (claim,) = (each for each in experiment(case["id"].partition(".")[0]).claims if each.entry.id == case["id"])
    given = evidence(case, claim)
    assert claim.verdict(given).status == case["verdict"]
    worked_out = [[eval(each, {}, letters(case)) for each in one] for one in case["values"]]
    assert worked_out == [pytest.approx(figures, rel=1e-5) for figures in case["figures"]]
    scope = scope_of(claim.entry, given, functions_of(claim.package))
    found = [estimate(each) for text in claim.entry.value for each in flat(compute(text, scope))]
    assert len(found) == len(case["figures"])
    for each, figures in zip(found, case["figures"], strict=True):
        assert (each.median, each.low, each.high) == pytest.approx((figures * 3)[:3], rel=1e-5)


def test_every_kind_is_among_them() -> None:
    kinds = {*FIELDS, "error", "flags", "kernels", "peak_bytes", "power_w", "flop", "bytes"} - {"span_s"}
    assert len(CASES) == 30 and {case["device"] for case in CASES} == {*DEVICES}
    assert {case["verdict"] for case in CASES} == {"holds", "fails", "undecided"}
    assert kinds <= {row[3] for case in CASES for row in case["rows"]}
