"""The line of the user's code behind each operator of a trace, and behind the host's time without an operator.

>>> line = Event(f"{LINE}a.py:3 `for x in slow():`", "annotation", 0, 90_000)
>>> relu = Event("aten::relu", "operator", 4, 6)
>>> mark = Event(f"{line.name}{DATA}", "annotation", 90_000, 90_000)
>>> lines_of([line, relu])[id(relu)], python_by_line([line, relu, mark])[WAITING]
('a.py:3 `for x in slow():`', Counter({'a.py:3 `for x in slow():`': 89998}))
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf
from statistics import median_low

from brrr.diagnosis.calls import ENGINE, FORWARD, nested
from brrr.tracing.events import Event
from brrr.tracing.lines import DATA, LINE, MADE

CONTEXTS = (6, 3)
"""So many operators one behind the other tell where a program is, the longer row first."""
LEAST = 0.1
"""Less than such a share of Python's time is waiting for nothing."""
AT_ONCE_NS = 20_000
"""What comes sooner, by the median of a line's turns, is not waited for: a batch that is there already."""
LOADING, LOADER, WAITING = ("enumerate(DataLoader)", "DataLoader"), "loader", "waiting for data"
OPTIMISER = "Optimizer.step"


def _line(around: Iterable[Event]) -> str:
    """The innermost line of what stands around, the outermost first."""
    return next((each.name.removeprefix(LINE) for each in [*around][::-1] if each.name.startswith(LINE)), "")


def lines_of(events: Iterable[Event]) -> dict[int, str]:
    """By the operators' identities, the lines that called them; of a gradient's, that of the operator it is of.

    Where no spans of lines are recorded, as in later steps, operators are recognised by their order.
    """
    found, of_gradients, places, learned = {}, {}, {}, []  # type: dict[int, str], dict[int, str], dict[Row, int], list[Row]
    recent, place, last = (), 0, ""  # type: Row, int, str
    for event, around in nested([each for each in events if not each.on_device]):
        if event.sort != "operator":
            continue
        top = next((each for each in around if each.sort == "operator"), event)
        if top is not event:
            line = found[id(top)]
        elif event.name.startswith(ENGINE):
            line = last = of_gradients.get(event.sequence, last)
        else:
            recent, line = (*recent, event.name)[-CONTEXTS[0] :], _line(around)
            rows = [recent[-size:] for size in CONTEXTS]
            if line:
                places |= {row: len(learned) for row in rows if row not in places}
                learned.append((event.name, line))
            elif learned:
                if place >= len(learned) or learned[place][0] != event.name:
                    place = next((places[row] for row in rows if row in places), 0)
                line = learned[place][1] if learned[place][0] == event.name else ""
                place += bool(line)
        if event.sequence >= 0 and not top.name.startswith(ENGINE):
            of_gradients[event.sequence] = line
        found[id(event)] = line
    return found


Row = tuple[str, ...]


def python_by_line(events: Sequence[Event], start_ns: float = -inf, end_ns: float = inf) -> dict[str, Counter[str]]:
    """Nanoseconds of the host outside of operators, by line: of Python, of waiting for data, and of a `DataLoader`'s.

    Data are waited for where a loop, or `next`, asks an iterator that gives data and computes no model in it, or where
    a line makes an array or bytes before the step's model begins. Where no line is told between the two times, others
    count; and where more than one step's are, the first is left out, which loads modules.
    """
    lines = [each for each in events if each.name.startswith(LINE)]
    told = [each.start_ns for each in lines if start_ns <= each.start_ns < end_ns]
    ends = [each.end_ns for each in events if each.name.startswith(OPTIMISER) and start_ns <= each.start_ns < end_ns]
    start_ns, end_ns = (start_ns, end_ns) if told else (-inf, inf)
    start_ns = ends[0] if told and ends[1:] and ends[0] < told[-1] else start_ns
    host = [each for each in events if each.sort in ("operator", "runtime") or each.name.startswith((LINE, *LOADING))]
    host = host if lines else []
    begun, early = False, set[int]()
    for each in events:  # a step's model begins anew behind each optimiser's step
        begun = not each.name.startswith(OPTIMISER) and (begun or each.name.startswith((*FORWARD, ENGINE)))
        early |= set() if begun else {id(each)}
    data = {each.name.removesuffix(DATA) for each in lines if each.name.endswith(DATA)}
    made = {each.name.removesuffix(MADE) for each in lines if each.name.endswith(MADE)} - data
    turns = [[each for each in lines if each.name == name] for name in data]
    turns += [[each for each in lines if each.name == name and id(each) in early] for name in made]
    slow = (each for each in turns if each and median_low(one.end_ns - one.start_ns for one in each) > AT_ONCE_NS)
    asked = {id(each) for line in slow for each in line}
    asked -= {id(one) for event, around in nested(host) if event.name.startswith((*FORWARD, ENGINE)) for one in around}
    found = {cause: Counter[str]() for cause in (WAITING, LOADER, "Python")}
    for event, around in nested(host):
        if any(each.sort == "operator" for each in around):
            continue
        length, spans = max(0, min(event.end_ns, end_ns) - max(event.start_ns, start_ns)), [*around]
        for added in (-length, length)[: 2 if event.sort == "annotation" else 1]:
            loads = any(each.name.startswith(LOADING) for each in spans)
            cause = LOADER if loads else WAITING if asked & {*map(id, spans)} else "Python"
            if added and (line := _line(spans)):
                found[cause][line] += int(added)
            spans.append(event)
    return {cause: +each for cause, each in found.items()}
