"""`brrr record`: measure an experiment's grid on this machine and write it as a recording.

python -m brrr record matmul --plan      # how long will it take?
python -m brrr record matmul             # at most 8 minutes; the same command goes on from there
python -m brrr record --claims           # of all experiments only what claims look at
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from brrr.core.errors import ArgumentError, BrrrError, NotRecordedError, RecordingError, UnavailableError
from brrr.core.measurement import DeviceKind
from brrr.core.recordings import FILE, device_folders, own_root, search_path
from brrr.gpu import is_gpu
from brrr.gpu.device import processor_for, slug
from brrr.gpu.probe import cpu_count, sm_clock_hz
from brrr_course.nouns.experiment import Experiment
from brrr_course.nouns.source import quick
from brrr_course.sources.claimed import claimed_points
from brrr_course.sources.folders import Store, locked
from brrr_course.sources.plan import PHASES, DurationEstimator, Step, claim_steps, steps
from brrr_course.sources.recorded import Recorded
from brrr_course.sources.recorder import Outcome, Recorder, record_traces
from brrr_course.sources.recording import Machine, collect_environment, on_several

THREADS = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
"""Threads of the CPU sleep while they wait. One that spins keeps the core from another of its team where they share it,
until the scheduler takes it away: 8 ms for each operator that has two threads, a thousand times the work."""
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""


def main(argv: Sequence[str]) -> int:
    """`brrr record [EXPERIMENT...]`: 0 when it went well (points may be left), 2 for an error, 130 for Ctrl-C."""
    options = _parser().parse_args(argv)
    try:
        options.device = options.device or processor_for("brrr record")
        os.environ |= {**THREADS, "OMP_NUM_THREADS": str(cpu_count()), **os.environ}  # read when torch and NumPy load
        return _plan(options) if options.plan else _record(options)
    except BrrrError as error:
        hint = " `--device cpu` records what runs on the CPU." if isinstance(error, UnavailableError) else ""
        print(f"{error}{hint}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    from brrr_course.experiments import NAMES

    parser = argparse.ArgumentParser(prog="brrr record", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "experiments", nargs="*", metavar="EXPERIMENT", help=f"{', '.join(NAMES)}; all if none is named"
    )
    parser.add_argument(
        "--device", metavar="KIND", help="cuda, mps, cpu, ...: what to measure (default: the GPU if there is one)"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the recordings; the device's lies inside it")
    parser.add_argument("--claims", action="store_true", help="only what claims look at, and the sliders' ends")
    parser.add_argument("--plan", action="store_true", help="print the predicted minutes and measure nothing")
    parser.add_argument(
        "--minutes", type=_positive, default=8.0, help="stop after so many (default: 8); run again to go on"
    )
    parser.add_argument("--budget", type=_positive, metavar="S", help="seconds a variant is measured for at each point")
    parser.add_argument("--only", metavar="NAME=VALUE,...", help="only these points: axes' names, or variant")
    parser.add_argument("--retry", action="store_true", help="try again what could not be measured in an earlier run")
    parser.add_argument("--fresh", action="store_true", help="set the device's old recording aside and begin anew")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _chosen(options: argparse.Namespace) -> tuple[list[Experiment], list[Step]]:
    from brrr_course.experiments import NAMES, experiment

    experiments = [experiment(name) for name in options.experiments or NAMES]
    only = parse_only(options.only)
    _check_only(only, experiments)
    found = steps(experiments, options.device, only=only, budget_s=options.budget, quick=quick())
    if options.claims:
        found, left_out = _of_claims(options, experiments, only)
        print("\n".join(left_out))
    if not found:
        wanted = ", ".join(f"{name}={value}" for name, values in only.items() for value in values)
        raise ArgumentError(
            "brrr record", "--only", wanted, "values that a grid has, and variants that this device has"
        )
    return experiments, found


def _of_claims(
    options: argparse.Namespace, experiments: Sequence[Experiment], only: Mapping[str, Sequence[str]]
) -> tuple[list[Step], list[str]]:
    """The steps that claims need, and what is left out; the same each time, for only the reference tells how long."""
    reference = reference_of(options.device)
    pace = DurationEstimator()
    _learn(pace, experiments, reference)
    return claim_steps(experiments, options.device, reference, pace, only=only, quick=quick())


def reference_of(kind: DeviceKind) -> Recorded | None:
    """The course's recording of a device of this kind, which tells what claims look at; None where there is none."""
    try:
        return Recorded("h200" if is_gpu(kind) else "cpu")
    except ArgumentError:
        return None


def _learn(
    estimator: DurationEstimator,
    experiments: Sequence[Experiment],
    reference: Recorded | None,
    store: Store | None = None,
) -> None:
    """How long variants take: as they did here, else as on the reference."""
    for e in experiments:
        rows = store.rows(e) if store else ()
        if not rows and reference is not None:
            with suppress(NotRecordedError, RecordingError):
                rows = reference.recording(e).rows
        estimator.learn_rows(e, rows)


def parse_only(only: str | None) -> dict[str, list[str]]:
    """The points that are wanted, by axis.

    >>> parse_only("size=1024,size=2048,variant=gpu")
    {'size': ['1024', '2048'], 'variant': ['gpu']}
    """
    wanted: dict[str, list[str]] = {}
    for pair in only.split(",") if only else ():
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value):
            raise ArgumentError("brrr record", "--only", pair, "NAME=VALUE, as size=1024")
        wanted.setdefault(name, []).append(value)
    return wanted


def _check_only(only: Mapping[str, Sequence[str]], experiments: Sequence[Experiment]) -> None:
    """Every name and every value must be known to one of the experiments; some values only a claim's point has."""
    known: dict[str, dict[str, None]] = {}
    for e in experiments if only else ():
        known.setdefault("variant", {}).update(dict.fromkeys(v.name for v in e.variants))
        for axis, *claimed in zip(e.axes, *claimed_points(e), strict=True):
            known.setdefault(axis.name, {}).update(dict.fromkeys(map(str, (*axis.values, *axis.quick, *claimed))))
    for name, values in only.items():
        if name not in known:
            raise ArgumentError("brrr record", "--only", name, f"one of {', '.join(known)}")
        for value in values:
            if value not in known[name]:
                raise ArgumentError("brrr record", f"--only {name}", value, f"one of {', '.join(known[name])}")


def _plan(options: argparse.Namespace) -> int:
    experiments, found = _chosen(options)
    estimator, store = DurationEstimator(), None
    try:
        machine = _in_its_folder(collect_environment(options.device)[0], options)
        folder, below = _root(options) / machine.slug, _below(options, machine.slug)
        if not options.fresh and ((folder / FILE).exists() or below):
            store = Store(folder, machine, experiments, below)
            found = [left for step in found if (left := store.missing(step, retry=options.retry))]
    except UnavailableError as error:
        print(f"This machine cannot record with --device {options.device}: {error}\nPlanned as if nothing were there.")
    _learn(estimator, experiments, reference_of(options.device) if options.claims else None, store)
    print(plan_text(found, estimator, options.minutes * 60) if found else "All of it is recorded; --fresh begins anew.")
    return 0


def _in_its_folder(machine: Machine, options: argparse.Namespace) -> Machine:
    """The machine under a name of its own where a folder of that name is another model's, as all CPUs' is `cpu`."""
    roots = search_path() if options.out is None else [options.out]
    for folder in device_folders(machine.slug, roots):
        with suppress(RecordingError):
            if Machine.read(folder).device != machine.device:
                return replace(machine, slug=slug(machine.device))
    return machine


def _root(options: argparse.Namespace) -> Path:
    return options.out if options.out is not None else own_root()


def _below(options: argparse.Namespace, slug: str) -> Sequence[Path]:
    """The folders whose recordings of the device a new one goes on from."""
    return () if options.fresh or options.out is not None else device_folders(slug)


def _record(options: argparse.Namespace) -> int:
    from brrr_course.sources.isolated import measure_step

    experiments, found = _chosen(options)
    machine, run = collect_environment(options.device)
    run = on_several(run, options.device, max(each.devices for each in experiments))
    machine = _in_its_folder(machine, options)
    folder = _root(options) / machine.slug
    with locked(folder):
        if options.fresh and (aside := set_aside(folder, run.id)):
            print(f"The old recording is set aside as {aside}")
        store = Store(folder, machine, experiments, _below(options, machine.slug))
        limit_s, estimator = options.minutes * 60, DurationEstimator()
        _learn(estimator, experiments, reference_of(options.device) if options.claims else None, store)
        recorder = Recorder(store, run, measure_step, estimator, limit_s=limit_s, sm_clock_hz=sm_clock_hz)
        started_s = time.monotonic()
        outcome = record_steps(recorder, found, retry=options.retry)
        if outcome.interrupted:
            return INTERRUPTED
        left_s = limit_s - (time.monotonic() - started_s)
        return INTERRUPTED if _trace(options, experiments, folder, left_s) else 0


def _trace(options: argparse.Namespace, experiments: Sequence[Experiment], folder: Path, left_s: float) -> bool:
    """Write the timelines that are listed and missing, in the time that is left; whether Ctrl-C ended it."""
    only = parse_only(options.only)
    traced = record_traces(experiments, options.device, folder, only=only, quick=quick(), limit_s=left_s)
    if traced.text:
        print(traced.text)
    return traced.interrupted


def record_steps(recorder: Recorder, found: Sequence[Step], *, retry: bool = False) -> Outcome:
    """Record with a progress bar, then print what was measured, what is left and what failed."""
    missing = [left for step in found if (left := recorder.store.missing(step, retry=retry))]
    fitting = [step for found in missing if (step := recorder.estimator.split(found, recorder.limit_s)[0])]
    predicted = {str(step): recorder.estimator.seconds(step) for step in fitting}
    minutes = sum(predicted.values()) / 60
    runs = f", in about {runs} runs" if (runs := -int(-minutes * 60 // recorder.limit_s)) > 1 else ""
    print(f"{len(fitting)} points to measure, {minutes:.1f} min predicted{runs}; writing to {recorder.store.folder}")
    with _progress(predicted) as on_step:
        recorder.on_step = on_step
        outcome = recorder.record(found, retry=retry)
    print(summary(outcome, recorder.limit_s))
    return outcome


@contextmanager
def _progress(predicted: Mapping[str, float]) -> Iterator[Callable[[Step], None]]:
    """A bar in predicted seconds, so that long points count for what they are, with the time left."""
    from tqdm import tqdm

    form = "{desc} {percentage:3.0f}%|{bar}| {elapsed} gone, {remaining} left"
    screen = getattr(sys.stderr, "stream", sys.stderr)  # a bar goes back to its line's begin
    with tqdm(total=sum(predicted.values()) or 1.0, bar_format=form, dynamic_ncols=True, file=screen) as bar:

        def on_step(step: Step) -> None:
            bar.set_description_str(str(step), refresh=False)
            bar.update(predicted.get(str(step), 0.0))

        yield on_step


def set_aside(folder: Path, run_id: str) -> Path | None:
    """Rename the folder, so that a fresh recording loses nothing; None if there is nothing to rename."""
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    try:
        return folder.rename(folder.with_name(f"{folder.name}.before-{run_id}"))
    except OSError as error:
        raise RecordingError(f"{folder}: cannot be set aside ({error.strerror or error})") from error


# ---------------------------------------------------------------------------------------------------------------------
# What `brrr record` prints: the plan before, the summary after.


def plan_text(found: Sequence[Step], estimator: DurationEstimator, limit_s: float) -> str:
    """The predicted device minutes: a line for each experiment and phase, and the points too long for one run."""
    parts = [estimator.split(step, limit_s) for step in found]
    fitting = [(step, estimator.seconds(step)) for step, _ in parts if step is not None]
    lines = []
    for name in dict.fromkeys(step.experiment.name for step, _ in fitting):
        for phase in PHASES:
            these = [s for step, s in fitting if step.experiment.name == name and step.phase == phase]
            if these:
                lines.append(f"{name:<12} {phase:<8} {len(these):>5} points {sum(these) / 60:>7.1f} min")
    total_s = sum(s for _, s in fitting)
    runs = "1 run" if total_s <= limit_s else f"{-int(-total_s // limit_s)} runs"
    lines.append(f"{'together':<21} {len(fitting):>5} points {total_s / 60:>7.1f} min predicted, in about {runs}")
    lines += [too_long(step, estimator.seconds(step), limit_s) for _, step in parts if step is not None]
    return "\n".join(lines)


def too_long(step: Step, seconds: float, limit_s: float) -> str:
    """That a point takes longer than one run may, and what to do.

    `seconds` is what it is predicted to take, `limit_s` what a run may.
    """
    return (
        f"{step} is predicted to take {seconds / 60:.1f} min with {', '.join(step.variants)}, "
        f"more than --minutes {limit_s / 60:g} holds: left out. Give it --minutes {seconds / 60 + 1:.0f}"
    )


def summary(outcome: Outcome, limit_s: float) -> str:
    """What a run did, as lines."""
    lines = [f"{len(outcome.measured)} points measured."]
    lines += [
        f"DRIFT {d.drift:+.1%}: anchor {d.experiment} {dict(d.point)}, {d.variant}, {d.field} (flagged in {FILE})"
        for d in outcome.drifts
        if d.flagged
    ]
    lines += [too_long(step, seconds, limit_s) for step, seconds in outcome.too_long]
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for f in outcome.failed:
        where = ", ".join(map(str, f.point.values()))
        reasons.setdefault((f.experiment, f.variant, f"{f.error}: {f.reason}"), []).append(where)
    lines += [f"NOT MEASURED {e} {v} at {'; '.join(at)}: {reason}" for (e, v, reason), at in reasons.items()]
    lines += [f"DOUBTFUL, measured twice: {each}" for each in outcome.broken]
    if outcome.interrupted:
        lines.append("Interrupted: all finished points are kept.")
    if outcome.left:
        lines.append(f"Points left: {len(outcome.left)}; the same command goes on with them.")
    return "\n".join(lines)
