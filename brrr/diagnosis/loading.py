"""What would help where the device waits for data: workers, as many as gain, and what else a loader lacks."""

from math import ceil, inf

from brrr.core import units
from brrr.diagnosis.calls import nested
from brrr.diagnosis.evidence import LEAST, WORTH, Evidence, Remedy
from brrr.diagnosis.lines import LOADING, WAITING
from brrr.tracing.events import Event
from brrr.tracing.loaders import SENT, settings_in

MOST = 32
"""More workers are not advised, however long they sleep."""
HANDED_S, HANDED_BYTES_PER_S = 1.5e-3, 4e9
"""What it takes a worker to hand a batch over, and a step to receive it: a new file in shared memory, its descriptor
through a socket, its pages touched for the first time. Of the recorded loaders' smallest batches and larger ones."""
UNKNOWN = "_MultiProcessing"
"""In the name of a span of torch's own: there are workers, and nobody tells how many."""
PICKED, MANY, PICKED_S = "aten::select", 16, 3e-6
"""How a sample is taken from a tensor in memory; from so many a batch on, one call for all is advised; what each takes
beyond its share of that call (experiment `indexing`, 256 rows)."""
AT_ONCE = "DataLoader(dataset, batch_size=None, sampler=BatchSampler(...)) hands __getitem__ a batch's indices at once."


def loading(found: Evidence) -> Remedy | None:
    """The next batches are made while this one is computed; what the device does meanwhile is no loss.

    Workers share the work. Where there are some already, and the step waits, all of them are busy; where much of it
    goes into starting them anew, that comes first. No step is shorter than what its processes compute, over the cores:
    as measured, else one core for what the host loads but where it sleeps, and for the rest those of torch's threads,
    on a GPU one; what workers compute is then not known, and no more are told than there are cores. Of a machine that
    nobody knows one worker is told; two where a GPU's host does hardly more than load: one gains nothing.
    """
    idle_s = min(found.split.idle_s.get(WAITING, 0.0), found.wall_s - found.device_s)
    if idle_s <= 0:
        return None
    spans = _spans(found)
    told = settings_in(max(spans, key=lambda each: each.end_ns - each.start_ns).name) if spans else {}
    unknown = not told and any(UNKNOWN in each.name for each in spans)
    now, cores, steps = told.get("num_workers", int(unknown)), found.flags.get("cores", inf), found.steps
    anew_s = idle_s * _starting(spans) if now and not told.get("persistent_workers") else 0.0
    lasting = ", persistent_workers=True" * (anew_s > (1 - 1 / LEAST) * found.wall_s)
    rest_s = max(found.wall_s - idle_s, 0.01 * found.wall_s)
    waited_s = max(idle_s, found.split.host_s.get(WAITING, 0.0)) if found.gpu else idle_s
    sent = max((settings_in(each.name).get(SENT, 0) for each in spans), default=0)
    handed_s = (not now) * steps * (HANDED_S + sent / HANDED_BYTES_PER_S)
    load_s = now * (found.wall_s - anew_s) or waited_s + handed_s
    own_s = found.host_s - waited_s if found.gpu else rest_s * min(found.flags.get("threads", 1), cores)
    awake_s = 0.0 if now else max(0.0, load_s - found.flags.get("asleep_s", 0.0))
    computed_s = max(0.0, found.flags.get("computed_s", awake_s + own_s) - anew_s)
    fed_s = max(rest_s, own_s + handed_s) if found.gpu else rest_s + handed_s  # a GPU works meanwhile
    least_s = min(found.wall_s, max(fed_s, computed_s / cores))
    most = 1 + (unknown or (found.gpu and waited_s * WORTH > found.wall_s)) if cores == inf else cores
    most = MOST if "computed_s" in found.flags else most
    workers = now if lasting else max(now, min(most, ceil(load_s / least_s)))
    left_s = max(least_s, load_s / workers)
    why = f"n {units.percent(idle_s / found.wall_s)} of the time the host waits for data, and nothing is computed."
    slowest = max(lines, key=lines.__getitem__) if (lines := found.split.lines.get(WAITING)) else "this"
    why = f"First make {slowest} faster: i{why}" if idle_s > found.wall_s / 2 else f"I{why}"
    what = f"DataLoader(..., num_workers={workers:g}{lasting})"
    what = f"{what} in place of {now}" if spans else f"what makes them in a Dataset, and {what},"
    what = "twice as many workers" if unknown else what
    why += f" With {what} a step is predicted to take {units.seconds(left_s / steps)}."
    why += f" All cores here ({cores:g}) are busy then: more workers gain nothing." * (left_s <= computed_s / cores)
    return Remedy("load in the background", found.wall_s / left_s, why)


def picking(found: Evidence) -> Remedy | None:
    """Samples that lie in memory are taken one by one, where one call takes a batch."""
    if not (spans := _spans(found)) or not found.split.idle_s.get(WAITING):
        return None
    inside = (each for each, around in nested(found.events) if any(one.name.startswith(LOADING) for one in around))
    rows = sum(each.name == PICKED for each in inside)
    if rows < MANY * len(spans):
        return None
    left_s = found.wall_s - min(rows * PICKED_S, found.split.idle_s[WAITING])
    why = f"Samples that lie in memory are picked one by one. {AT_ONCE} A step is predicted to take"
    return Remedy("batch at once", found.wall_s / left_s, f"{why} {units.seconds(left_s / found.steps)}.")


def _spans(found: Evidence) -> list[Event]:
    """Where a loader works: what tells its settings, if anything does."""
    spans = [each for each in found.events if each.name.startswith(LOADING)]
    return [each for each in spans if settings_in(each.name)] or spans


def _starting(spans: list[Event]) -> float:
    """Which share of loading goes into epochs' begins: the end of the last one's workers, and the start of others."""
    lengths = [each.end_ns - each.start_ns for each in spans]
    anew = [at for at, each in enumerate(spans) if "__iter__" in each.name]
    return sum(lengths[at] for at in {*anew, *(max(0, at - 1) for at in anew)}) / (sum(lengths) or 1)
