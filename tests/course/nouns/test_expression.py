"""What decides a claim: the notation on invented times, bounds, what is missing, and what cannot be read."""

from typing import Any

import made_up
import pytest
from formulas import Kept, time_of

from brrr.core.errors import NotRecordedError, RecordingError
from brrr.core.measurement import Measurement
from brrr_course.experiments import experiment
from brrr_course.nouns.claim import decided
from brrr_course.nouns.expression import Scope, Table, compute, estimate
from brrr_course.nouns.ledger import Entry
from brrr_course.nouns.source import Evidence

UNARY = experiment("unary")
BUSY = {"relu": {1024: 1.0, 65536: 2.0, 2**26: 4.0}, "gelu": {1024: 2.0, 65536: 3.0}}
"""In seconds, 1 % wide."""
KNOWN = {
    name: {(size, "float32"): Measurement(busy_s=time_of(time), kernels=1) for size, time in times.items()}
    for name, times in BUSY.items()
}
QUEUE = {"queue-tanh": {(1024, "float32"): Measurement(kernel_s=time_of(8.0))}}
EVIDENCE, WITHOUT_A_GPU = Evidence(UNARY, Kept(KNOWN)), Evidence(UNARY, Kept(QUEUE))


def value(text: str, **names: Any) -> Any:
    return compute(text, Scope(EVIDENCE, {"dtype": "float32"}, {"twice": lambda e, x: 2 * x}, names))


@pytest.mark.parametrize(
    ("text", "median"),
    [
        ("busy('relu', elements=1024)", 1),
        ("busy('relu', elements=1024) / busy('gelu', elements=1024) + 2 ** 3 - -1", 9.5),
        ("busy('relu')[65536]", 2),
        ("last(busy('relu'))", 4),
        ("last(busy('relu') / busy('gelu'))", 2 / 3),
        ("first(busy('relu', elements=least(2000)))", 2),
        ("count(busy('relu', elements=[1024, 65536, 7]))", 2),
        ("count(busy('relu') > 1.5)", 2),
        ("share(busy('relu', elements=most(65536)) > 1.5)", 0.5),
        ("min(busy('relu'))", 1),
        ("max(min(busy('relu'), busy('gelu')))", 2),
        ("mean([1, 2, 6])", 3),
        ("geomean([2, 8])", 4),
        ("total([f(x) for x in (1, 2)])".replace("f(x)", "twice(x)"), 6),
        ("count([a * b for a in (1, 2) for b in (1, 2, 3) if a != b])", 4),
        ("best(keys(busy('gelu')))", 65536),
        ("count(fastest(busy('relu'), busy('gelu'), needed=1))", 3),
        ("last(fastest(busy('gelu'), busy('relu')))", 2),
        ("fastest(last(busy('exp')), 5, needed=0)", 5),
        ("from_on(busy('relu') > 1.5)", 65536),
        ("from_on(busy('relu') > 9, otherwise=0)", 0),
        ("last(where(busy('relu'), busy('relu') < 3))", 2),
        ("doubled([n * n for n in (1, 2, 3)])[1]", 4),
        ("busy(f'{name}', elements=1024)", 2),
        ("has('relu') and not has('exp')", 1),
        ("kernels('relu', elements=1024)", 1),
        ("bytes('relu', elements=1024)", 8192),
        ("sheet('memory_bytes_per_s')", 4.8e12),
        ("sheet('a100', 'fp32')", 19.5e12),
        ("sqrt(abs(0 - 4)) + log2(8)", 5),
        ("exact(busy('relu', elements=1024))", 1),
        ("last(range(2, 9, 3)) % 5", 3),
    ],
)
def test_notation(text: str, median: float) -> None:
    assert estimate(value(text, name="gelu")).median == pytest.approx(median)


def test_intervals_are_the_widest_and_a_claim_stands_only_on_what_is_certain() -> None:
    found = value("busy('relu', elements=1024) / busy('gelu', elements=1024)")
    assert (found.low, found.high) == pytest.approx((0.99 / 2.02, 1.01 / 1.98))
    assert value("busy('relu', elements=1024) > 0.98") and not value("busy('relu', elements=1024) > 1")
    assert value("busy('relu')").axes == ("elements",)


@pytest.mark.parametrize(
    "text",
    ["busy('relu', elements=7)", "busy('relu')[7]", "last(busy('exp'))", "last(busy('gelu'), from_=2 ** 20)",
     "from_on(busy('relu') > 9)", "enough(busy('gelu'), 3)", "fastest(busy('exp'), busy('relu'), needed=1)"],
)  # fmt: skip
def test_what_is_missing_is_not_measured(text: str) -> None:
    with pytest.raises(NotRecordedError):
        value(text)


def entry(**fields: Any) -> Entry:
    return made_up.claim(at={"dtype": ("float32",)}, **fields).entry


@pytest.mark.parametrize(
    ("fields", "status", "text"),
    [
        ({"within": ((1.9, 2.1),)}, "holds", "2x (1.96x to 2.04x); 1.9x to 2.1x was claimed"),
        ({"within": ((2.0, "inf"),)}, "undecided", "at least 2x was claimed"),
        ({"within": (("-inf", "1/4"),)}, "fails", "at most 0.25x was claimed"),
        ({"about": 2.0}, "holds", "1.6x to 2.4x was claimed"),
        ({"about_gain": 2.0}, "holds", "1.8x to 2.2x was claimed"),
        ({"within": ((0, 3),), "reads": "{value}, of {n:} sizes", "let": {"n": "count(busy('gelu'))"}}, "holds",
         "2x (1.96x to 2.04x), of 2 sizes"),
        ({"value": ("busy('relu') > 0.5",)}, "holds", "yes"),
    ],
)  # fmt: skip
def test_a_verdict_has_its_numbers_and_what_was_claimed(fields: dict[str, Any], status: str, text: str) -> None:
    ratio = ("busy('gelu', elements=1024) / busy('relu', elements=1024)",)
    found = decided(entry(**{"value": ratio} | fields), EVIDENCE)
    assert found.status == status and text in found.measured


def test_what_stands_in_is_said_and_never_beside_a_gpu() -> None:
    read = entry(value=("busy('tanh', elements=1024)",), within=((8, 8),))
    assert decided(read, WITHOUT_A_GPU).measured.startswith("on the CPU queue: 8x")
    with pytest.raises(NotRecordedError):
        decided(read, Evidence(UNARY, Kept(KNOWN | QUEUE)))


@pytest.mark.parametrize("texts", [("1", "where(busy('relu'), busy('relu') > 9)"), ("1 / (2 - 2)",)])
def test_a_claim_is_not_measured_where_any_of_its_values_is_not(texts: tuple[str, ...]) -> None:
    with pytest.raises(NotRecordedError):
        decided(entry(value=texts, within=((0, 3),)), EVIDENCE)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("busi('relu')", "busi is no function"),
        ("busy('relu', size=4)", "size"),
        ("busy('no-such')", "no-such"),
        ("__import__('os')", "__import__ is no function"),
        ("(lambda: 1)()", "not allowed"),
        ("evidence.source", "not allowed"),
        ("other", "let.other"),
        ("busy('relu') + [a for a in (1, 2)]", "open axes"),
        ("first(3)", ""),
    ],
)
def test_what_cannot_be_computed_names_the_claim_and_the_place(text: str, place: str) -> None:
    with pytest.raises(RecordingError, match=rf"made-up\.x.*{place}"):
        decided(entry(value=(text,)), EVIDENCE)


def test_a_tables_values_are_listed() -> None:
    assert Table(("n",), {(1,): 2.0}).listed() == [2.0]
    with pytest.raises(NotRecordedError):
        Table(("n",), {}).listed()
