"""Parts of the classroom by themselves: the histogram, shares of the cores, and what the gateway keeps for a while."""

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from played_class import Classroom, Client, Clock, Played, asks, served, settle
from promises import promised

from brrr_course.classroom import connections, teacher
from brrr_course.classroom.engine import _shares
from brrr_course.classroom.gateway import _Refused
from brrr_course.classroom.histogram import rows
from brrr_course.classroom.query import version
from brrr_course.experiments import NAMES
from brrr_course.lessons.answers import Choice, Quantity, Ranking


def test_each_experiment_has_a_version_of_its_own() -> None:
    assert len({version(name) for name in NAMES}) == len(NAMES)


# -- the histogram ----------------------------------------------------------------------------------------------------

BOUNDS = [step * 10.0**power for power in range(-9, 9) for step in (1, 2, 5)]


def label(form: Quantity, place: int) -> str:
    return f"{form.show(BOUNDS[place])} to {form.show(BOUNDS[place + 1])}"


def place_of(value: float) -> int:
    return sum(bound <= value * (1 + 1e-12) for bound in BOUNDS) - 1


@pytest.mark.parametrize("seed", range(20))
def test_quantities_stand_in_classes_from_one_to_two_to_five_to_ten(seed: int) -> None:
    draw = Random(seed)
    form = Quantity(draw.choice("sx"))
    given = {draw.uniform(1.0, 9.99) * 10.0 ** draw.randrange(-3, -1): draw.randrange(1, 9) for _ in range(6)}
    measured = draw.choice([None, 3e-4, 0.7])
    places = [place_of(value) for value in [*given, *([measured] if measured else [])]]
    low, high = min(places), max(places)
    assert high - low < 11
    counts = Counter[int]()
    for value, count in given.items():
        counts[place_of(value)] += count
    right = None if measured is None else place_of(measured)
    assert rows(form, given, measured) == [
        (label(form, place), counts[place], place == right) for place in range(low, high + 1)
    ]


@pytest.mark.parametrize(
    ("guesses", "measured", "first", "last", "rightly"),
    [
        ({1e-6: 1, 1e-2: 3, 1e3: 1}, None, "under 500 µs", "500 ms or more", None),
        ({1e-6: 1, 1e-2: 3}, 1e3, "under 500 µs", "500 ms or more", -1),
        ({1e-2: 3, 1e3: 1}, 1e-6, "under 500 µs", "500 ms or more", 0),
        ({1e-6: 3, 1e3: 1}, None, "1 µs to 2 µs", "2 ms or more", None),
        ({1e-6: 1, 1e3: 3}, None, "under 1 s", "1000 s to 2000 s", None),
        ({}, 1e-3, "1 ms to 2 ms", "1 ms to 2 ms", 0),
    ],
)
def test_who_is_far_off_stands_in_an_open_class_and_the_middle_is_the_median_s(
    guesses: dict[Any, int], measured: float | None, first: str, last: str, rightly: int | None
) -> None:
    found = rows(Quantity("s"), guesses, measured)
    assert len(found) == (11 if guesses else 1) and sum(row.students for row in found) == sum(guesses.values())
    assert (found[0].label, found[-1].label) == (first, last)
    assert [row for row in found if row.right] == ([] if rightly is None else [found[rightly]])
    assert rows(Quantity("s"), {}, None) == []


def test_of_an_order_what_stands_first_is_counted() -> None:
    form = Ranking(("a", "b", "c"))
    given: Any = {("a", "b", "c"): 2, ("a", "c", "b"): 3, ("c", "a", "b"): 1}
    assert rows(form, given, ("b", "a", "c")) == [("a", 5, False), ("b", 0, True), ("c", 1, False)]
    assert rows(Choice(("x", "y")), {"y": 4}, None) == [("x", 0, False), ("y", 4, False)]


# -- cores ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cores", "workers", "shares"),
    [
        (range(8), 2, ["1,2,3", "4,5,6"]), (range(6), 2, ["1,2", "3,4"]), (range(5), 2, ["0,1", "2,3"]),
        (range(2), 2, ["0", "1"]), ([3], 3, ["3"] * 3), ([4, 9, 2], 1, ["2,4,9"]), (range(4), 1, ["1,2,3"]),
    ],
)  # fmt: skip
def test_workers_share_no_core_and_one_stays_free_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch, cores: Any, workers: int, shares: list[str]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores), raising=False)
    assert _shares(workers) == shares


# -- what the gateway keeps for a while -------------------------------------------------------------------------------


async def test_a_ranking_is_two_seconds_old_at_most(room: Classroom, clock: Clock) -> None:
    made: list[str] = []
    room.gateway.ranking.table = lambda name, devices: made.append(name) or len(made)  # type: ignore[method-assign]
    for later_s, known in ((0.0, 1), (1.9, 1), (0.2, 2), (1.9, 2)):
        clock.now_s += later_s
        assert await room.gateway.table("schedule") == known
    assert await room.gateway.table("tiling") == 3 and made == ["schedule", "schedule", "tiling"]


async def test_news_are_waited_for_half_a_minute_at_most(room: Classroom, ada: Client) -> None:
    mine = (await ada.post("/measure", json=asks(64))).json()["id"]
    await settle()
    for wait, status in (("30.1", 400), ("-1", 400), ("x", 400), ("nan", 400), ("0", 200)):
        assert (await ada.get(f"/requests/{mine}?wait={wait}")).status_code == status, wait
    room.engine.release()
    assert (await ada.get(f"/requests/{mine}?wait=30")).json()["state"] == "done"
    assert (await ada.get(f"/points/matmul?after={2**53}")).json() == []
    assert (await ada.get(f"/points/matmul?after={2**53 + 2}")).status_code == 400


async def test_who_has_not_come_for_a_while_is_forgotten_and_who_floods_is_not(room: Classroom, clock: Clock) -> None:
    gateway, now_s = room.gateway, clock.now_s
    gateway._levels = {f"old {n}": (0.0, now_s - 10.1) for n in range(4000)} | {"flood": (0.0, now_s - 0.01)}
    with pytest.raises(_Refused):
        gateway._limit("flood")
    assert set(gateway._levels) == {"flood"}, "a bucket is full again ten seconds after the longest line"
    gateway._levels = {f"new {n}": (50.0, now_s - 9.9) for n in range(4001)}
    gateway._limit("ada")
    assert len(gateway._levels) == 4002 and gateway._levels["ada"] == (99.0, now_s)


@pytest.mark.parametrize(("line_s", "taken"), [(0.0, 100), (5.0, 200)])
async def test_a_bucket_fills_while_nobody_takes_from_it(
    room: Classroom, clock: Clock, line_s: float, taken: int
) -> None:
    waits = [room.gateway._limit("x", line_s) for _ in range(taken)]
    rate = promised("docs/classroom_details.md", r"429 above (\d+) requests a second")
    assert waits == pytest.approx([max(0.0, (n - 99) / rate) for n in range(taken)])
    for later_s in (0.0, 0.049):
        clock.now_s += later_s
        with pytest.raises(_Refused) as refused:
            room.gateway._limit("x", line_s)
    assert refused.value.response.status_code == 429 and refused.value.response.headers["Retry-After"] == "1"
    clock.now_s += 0.051
    room.gateway._limit("x", line_s)


def test_a_request_that_is_being_answered_is_not_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """News may be longer in coming than a header may take."""
    monkeypatch.setattr(connections, "HEADER_S", 0.1)
    with served(tmp_path / "class.db", Played()) as (url, token, _):
        with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}) as ada:
            mine = ada.post("/measure", json=asks(64)).json()["id"]
            for _ in range(2):
                told = ada.get(f"/requests/{mine}?wait=0.4").json()
        assert told["state"] == "running"


async def test_what_the_class_s_device_measured_is_asked_for_again_once_it_was_hidden(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[bool] = []

    async def truths(self: object, lesson: str, own: bool) -> list[Any]:
        ran.append(own)
        return []

    monkeypatch.setattr(teacher.Truths, "_run", truths)
    async with Classroom(path, Played(), serving=path) as room, room.client("prof", teacher=True) as prof:
        for asked in ("?reveal=1&own=1", "?reveal=1&own=1", "", "?own=1", "?reveal=1", "?reveal=1&own=1"):
            assert (await prof.get(f"/guesses/01{asked}")).json()["questions"] == []
    assert ran == [True, False, True], "the recording's is the same the next time"
