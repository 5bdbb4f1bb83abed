"""Every file that may come from elsewhere, damaged in drawn ways: it reads, or is one error that names it, at once.

The damages: bytes cut off, changed, put in; JSON and CSV whose values are of other types, huge, deep or not to be
encoded; members of an archive that are pickles, tell of other shapes, have blanks behind, lie twice or are strangers.
"""

import gzip
import io
import json
import pickle
import random
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import made_up
import numpy as np
import peaks_made_up
import pytest
import timelines

from brrr.core.errors import BrrrError
from brrr.core.files import json_text
from brrr.diagnosis.diagnosing import diagnose_trace
from brrr.roofline import peaks
from brrr.roofline.peak import SweptCalls
from brrr_course.experiments import experiment
from brrr_course.sources import samples, timeline_file
from brrr_course.sources.folders import join
from brrr_course.sources.recording import Machine, Recording

ROUNDS, LONGEST_S, MOST_BYTES = 60, 20.0, 1_500_000_000
"""A file takes milliseconds; the limits are those of a machine that others use too."""
MATMUL = experiment("matmul")
SWEEP = SweptCalls.of(("m", "n", "k", "batch", "layout", "dtype"), [(64, 64, 64, 1, "nn", "tf32")] * 50, [2e-6] * 50)
ODD: list[Any] = [
    None, True, -1, 10**400, 1e308, 0, "", "x" * 10_000, "\ud800", "\x1b[2J", [], {}, [[]], {"a": {"a": 1}}, 2**63, 0.5,
    "../../etc/passwd", "NaN", [1] * 10_000,
]  # fmt: skip


@cache
def good(root: Path) -> Path:
    """A folder of each kind of file, as ours write them."""
    made_up.record(root, made_up.GPU, {"size": ["64", "128"]})
    folder = root / "h200"
    rows = Recording.read(folder, MATMUL).rows
    part = {row.key: {"host_s": [1e-6, 2e-6], "period_s": [3e-6]} for row in rows}
    samples.join(folder / "matmul.samples.npz", {"run-1.00000": part, "run-1.00001": part})  # type: ignore[dict-item]
    timeline_file.write(timelines.host_bound(3), folder / "traces" / "matmul" / "one.json")
    peaks.write(root / "peaks", replace(peaks_made_up.gpu_peaks(), sweeps={"products": SWEEP}))
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1.0, "dur": 2.0}
    events = [{**event, "ts": 3.0 * at, "args": {"Input Dims": [[4, 4]], "Input type": ["float"]}} for at in range(9)]
    trace = json.dumps({"schemaVersion": 1, "traceEvents": events})
    (root / "trace.json").write_text(trace, "utf-8")
    (root / "trace.json.gz").write_bytes(gzip.compress(trace.encode()))
    return root


def sweeps(root: Path) -> object:
    """As the peaks' file vouches for it: who makes one file makes the other."""
    packed = (root / "peaks" / "sweeps.npz").read_bytes()
    found = peaks.Packed(packed, {"products": SWEEP.part(())}, root / "peaks" / "sweeps.npz")
    return found["products"]


def joined(root: Path) -> object:
    into = root / "into"
    made_up.record(into, made_up.GPU, {"size": ["256"]}, run=made_up.run_info("own"))
    return join(into / "h200", root / "h200")


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "machine": ("h200/machine.json", lambda root: Machine.read(root / "h200")),
    "rows": ("h200/matmul.csv", lambda root: Recording.read(root / "h200", MATMUL)),
    "samples": ("h200/matmul.samples.npz", lambda root: samples.read(root / "h200/matmul.samples.npz")),
    "samples, joined": ("h200/matmul.samples.npz", joined),
    "timeline": ("h200/traces/matmul/one.json", lambda root: timeline_file.read(root / "h200/traces/matmul/one.json")),
    "timeline, joined": ("h200/traces/matmul/one.json", joined),
    "peaks": ("peaks/peaks.json", lambda root: peaks.read_peaks(root / "peaks")),
    "sweeps": ("peaks/sweeps.npz", sweeps),
    "trace": ("trace.json", lambda root: diagnose_trace(root / "trace.json")),
    "packed trace": ("trace.json.gz", lambda root: diagnose_trace(root / "trace.json.gz")),
}


SEALED = ("machine", "rows")
"""What is read of these is what was written."""


# -- damages of bytes


def damaged(rng: random.Random, content: bytes) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice([1, 4, 100, len(content)])
    lines = content.splitlines(keepends=True)
    line = rng.randrange(len(lines))
    return rng.choice([
        content[:at], content[:at] + rng.randbytes(length) + content[at:], content[:at] + content[at + length:],
        content[:at] + rng.randbytes(min(length, 8)) + content[at + min(length, 8):], content + b" " * 3_000_000,
        b"\xff\xfe" + content, b"\x00" * len(content), pickle.dumps(ODD[:8]), b"", b"[" * 200_000, content + content,
        b'{"a":' * 100_000, content.replace(b"1", b"9" * 5000, 1), b"".join(lines[:line] + lines[line + 1:]),
        b"".join(lines[:line + 1] + lines[line:]),
        content[:at] + bytes(each ^ 1 << rng.randrange(8) for each in content[at:at + 1]) + content[at + 1:],
    ])  # fmt: skip


# -- damages of JSON, with a checksum that fits, of rows and of archives


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*way, key))


def odd_json(rng: random.Random, content: bytes) -> bytes:
    """A value somewhere is another one, a key is missing or new; sealed again."""
    whole = json.loads(content)
    version = whole.pop("format", None)
    whole.pop("checksum", None)
    *way, last = rng.choice([place for place in places(whole) if place])
    target = whole
    for key in way:
        target = target[key]
    if rng.random() < 0.2 and isinstance(target, dict):
        target["more"] = target.pop(last)
    else:
        target[last] = rng.choice(ODD)
    if version is None:
        return json.dumps(whole).encode()
    return json.dumps(json.loads(json_text(version, whole))).encode()


def odd_csv(rng: random.Random, content: bytes) -> bytes:
    lines = content.decode().splitlines(keepends=True)
    at = rng.randrange(len(lines))
    cells = lines[at].split(",")
    cells[rng.randrange(len(cells))] = rng.choice(
        ["", "nan", "1e999", "-1", "x" * 9000, '"', "=1+1", "１", "\x1b", "1\r2"]
    )
    lines[at] = ",".join(cells)
    return "".join(lines).encode()


def header(descr: str, shape: str, blanks: int = 0) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}{' ' * blanks}\n".encode()
    return b"\x93NUMPY\x01\0" + min(len(text), 65535).to_bytes(2, "little") + text


def odd_archive(rng: random.Random, content: bytes) -> bytes:
    """A member is another one: its bytes or its header, or there is one more, or one less."""
    with ZipFile(io.BytesIO(content)) as archive:
        there = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice([*there])
    kinds = ["<f4", "<f8", "|O", "|S0", "<U0", "|V0", "<U9999", "<c16", "(1000,)<f4", "<i8", "<M8[s]"]
    shapes = [f"({10**13},)", "(3,)", "()", "(0,)", "(-1,)", f"({10**9},)", "(1, 2)", f"({2**31}, 0)", "(" * 3000]
    forged = header(rng.choice(kinds), rng.choice(shapes), rng.choice([0, 60_000]))
    pickled, array = io.BytesIO(), io.BytesIO()
    np.save(pickled, np.array([{}], object), allow_pickle=True)
    np.save(array, rng.choice([np.full(3, np.nan, "<f4"), np.ones((2, 2)), np.array(["x"]), np.full(50, -1)]))
    blanks = b" " * rng.choice([1, 20_000_000])
    was = there[name]
    there[name] = rng.choice([forged + bytes(12), forged, was + blanks, pickled.getvalue(), array.getvalue(), b"",
                              was[:-1], odd_index(rng, was), damaged(rng, was)])  # fmt: skip
    if rng.random() < 0.3:
        there[rng.choice(["secret.99999.npy", "../../x.npy", "x.00001.json", "a\x1bb"])] = b"MZ anything at all"
    if rng.random() < 0.2:
        there.pop(name)
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for each, inner in there.items():
            archive.writestr(each, inner)
        if there and rng.random() < 0.2:
            archive.writestr(next(iter(there)), b"twice")
    return out.getvalue()


def odd_index(rng: random.Random, content: bytes) -> bytes:
    try:
        index = json.loads(content)
    except ValueError:
        return content
    index[0][1][rng.choice(["host_s", "period_s", "made_up"])] = rng.choice(
        [10**9, -1, 0, "2", None, 2.5, True, 10**400]
    )
    return json.dumps(index).encode()


DAMAGES = {".json": odd_json, ".csv": odd_csv, ".npz": odd_archive}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", READERS)
def test_it_reads_or_is_one_error_that_names_it(
    kind: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    name, read = READERS[kind]
    source = good(tmp_path_factory.getbasetemp() / "good")
    content, rng = (source / name).read_bytes(), random.Random(kind)
    ways: Sequence[Callable[[random.Random, bytes], bytes]] = [damaged, DAMAGES.get(Path(name).suffix, damaged)]
    for round_ in range(ROUNDS * (5 if kind in SEALED else 1)):
        root = tmp_path / str(round_)
        shutil.copytree(source, root)
        bad = ways[round_ % 2](rng, content)
        (root / name).write_bytes(bad)
        started_s, said = time.process_time(), ""
        tracemalloc.start()  # what the process held before, or once held at most, does not hide what this takes
        try:
            found = read(root)
        except BrrrError as error:
            said = str(error)
        except BaseException as error:
            raise AssertionError(f"round {round_}: {type(error).__name__}: {error}") from error
        finally:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert most < MOST_BYTES, round_
        assert not said or (Path(name).name in said and len(said) < 50_000), (round_, said)
        assert said or kind not in SEALED or round_ % 2 or found == read(source), "damaged bytes are read as they were"
        if not said:
            assert b"MZ anything" not in b"".join(each.read_bytes() for each in root.glob("into/*/*.npz"))
        assert time.process_time() - started_s < LONGEST_S, round_
        shutil.rmtree(root)
