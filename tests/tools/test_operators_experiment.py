"""The `operators` experiment: its cases and their halves."""

from __future__ import annotations

import hashlib
from collections import Counter
from operator import attrgetter

import pytest

from tools.prediction.operators.cases import SEED, TABLE, OperatorCase, by_name, cases, half_of, split


def test_there_are_120_cases_of_every_family_and_no_name_stands_for_two() -> None:
    assert len(cases()) == len(by_name()) == 120
    assert {each.kind for each in cases()} == set(TABLE)
    assert Counter(each.dtype for each in cases()).keys() == {"float32", "bfloat16", "float16", "tf32"}
    assert 0.25 < Counter(each.direction for each in cases())["backward"] / 120 < 0.5
    assert all(":" not in each.name and "," not in each.name and "=" not in each.name for each in cases())


@pytest.mark.parametrize(
    ("group", "apart"), [(("kind",), 1), (("what",), 1), (("kind", "dtype"), 9), (("kind", "direction"), 9)]
)
def test_the_halves_are_equal_and_share_what_there_are_two_of(group: tuple[str, ...], apart: int) -> None:
    assert Counter(map(half_of, cases())) == {"learn": 60, "report": 60}
    groups: dict[tuple[str, ...], list[str]] = {}
    for each in cases():
        groups.setdefault(attrgetter(*group, "name")(each)[:-1], []).append(half_of(each))
    for found in groups.values():
        assert len(found) < 2 or {*found} == {"learn", "report"}
        assert abs(found.count("learn") - found.count("report")) <= apart


def test_the_split_depends_on_cases_and_seed_alone() -> None:
    assert split(reversed(cases())) == split(cases(), SEED)
    assert split(cases(), "another seed") != split(cases())
    report = ", ".join(sorted(each.name for each in cases() if half_of(each) == "report"))
    assert hashlib.sha256(report.encode()).hexdigest()[:16] == "ece8ef8f56dbbba1", "the reported half is fixed for good"


def test_a_case_reads_as_it_stands_in_the_table() -> None:
    found = by_name()["bmm 97x253x511x77 bfloat16 backward"]
    assert found == OperatorCase("product", "bmm", (97, 253, 511, 77), "bfloat16", "backward")
