"""Where measurements come from and where they go: live sources, recordings, the recorder; a source by its name."""

import os
import sys
from collections.abc import Collection

from brrr.core.errors import ArgumentError, UnavailableError
from brrr.gpu import device, is_cpu, is_gpu
from brrr_course.nouns.experiment import HAVE
from brrr_course.nouns.source import Source

FALLBACK = "recorded:h200"
"""What is shown where nothing can be measured."""

_live: dict[str, Source] = {}
"""The live sources of this session: what one cell measured, the next one knows."""


def source(name: str | None = None) -> Source:
    """The source of that name: `recorded:h200`, `cuda`, `mps`, `cpu` or `remote:https://...`; None asks `BRRR_SOURCE`,
    then looks for a GPU.

    >>> source("recorded:h200").live
    False

    Where `BRRR_SOURCE` names a class's gateway that does not answer, it says so and gives the recording.
    """
    if name is None and os.environ.get("BRRR_SOURCE", "").startswith("remote:"):
        return _remote_or_recorded(os.environ["BRRR_SOURCE"])
    name = name or os.environ.get("BRRR_SOURCE") or _default_name()
    kind, _, rest = name.partition(":")
    if name in _live:
        return _live[name]
    if kind == "remote":
        from brrr_course.sources.remote import Remote

        return _live.setdefault(name, Remote(rest))
    if kind == "recorded":
        from brrr_course.sources.recorded import recorded

        return recorded(rest or "h200")
    if is_cpu(name) or is_gpu(name) or name == device.default_device_kind():  # which has a vendor's back end loaded
        from brrr_course.sources.live import Live

        return _live.setdefault(name, Live(name))
    from brrr_course.sources.remote import bare

    kinds = f"recorded:DEVICE, an accelerator ({device.accelerators()}), cpu or remote:URL"
    raise ArgumentError("source", "name", bare(name), kinds, _recordings_hint())


def source_for(given: Source | str | None, experiment: str, lines: Collection[str] = ()) -> Source:
    """The source that was asked for; where none was, one that can show the experiment, or any of these lines.

    That is a recording where it takes more GPUs than are here, or what this one lacks, and another where the usual one
    lacks it: one of the course's before one of your own. What nobody has recorded is measured on the CPU, where it runs
    there.

    >>> source_for(None, "matmul").name, source_for("recorded:h100", "matmul").name  # doctest: +SKIP
    ('recorded:h200', 'recorded:h100')
    """
    if given is not None:
        return source(given) if isinstance(given, str) else given
    from brrr.core.recordings import recorded_devices
    from brrr_course.experiments import NAMES
    from brrr_course.experiments import experiment as experiment_named
    from brrr_course.nouns.ledger import course_devices
    from brrr_course.sources.recorded import Recorded

    found = source()
    if is_gpu(found.name):
        asked = experiment_named(experiment)
        shown = [asked.variant(each.variant) for each in asked.lines if each.name in lines]
        wanted = shown or [each for each in asked.variants if each.on_gpu]
        lacking = all(asked.lacks(each, found.name) in HAVE for each in wanted)
        if lacking or len(device.others(found.name, asked.devices - 1)) + 1 < asked.devices:
            found = source(FALLBACK)
    if not isinstance(found, Recorded) or experiment in found.experiments():
        return found
    recordings = map(Recorded, sorted(recorded_devices(), key=lambda device: device not in course_devices()))
    there = next((source(each.name) for each in recordings if experiment in each.experiments()), None)
    on_cpu = experiment in NAMES and any(is_cpu(each.device) for each in experiment_named(experiment).variants)
    return there or (source("cpu") if on_cpu else found)


def _remote_or_recorded(name: str) -> Source:
    try:
        return source(name)
    except UnavailableError as error:
        print(f"{str(error).rstrip('.')}. Shown instead: {FALLBACK}.", file=sys.stderr)
        return source(FALLBACK)


def _default_name() -> str:
    found = device.default_device_kind()
    return found if is_gpu(found) else FALLBACK


def _recordings_hint() -> str:
    from brrr.core.recordings import recorded_devices

    devices = ", ".join(f"recorded:{device}" for device in recorded_devices())
    return f"Recordings here: {devices or 'none'}"
