"""What `check` says of the answers in notebooks/source/solutions/, and of the same with one change each."""

import math
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brrr.core.errors import ArgumentError
from brrr_course.lessons import marks
from brrr_course.lessons.calculations import calculated, tables
from brrr_course.lessons.checking import check, exercises
from brrr_course.lessons.marks import Mark

SOURCES = Path(__file__).resolve().parents[3] / "notebooks" / "source" / "solutions"
TIMER = "    return start.elapsed(end) / 100"
LOOP = "    for _ in range(100):\n        x * weight + bias\n    synchronize()\n    return (clock() - start) / 100"
KEEPING = "quiet(x, kept={}):\n    return kept.setdefault(len(x), now(x))\n\n\ndef now(x):"
SIZE = "x / x.square().mean().sqrt().clamp(min=1)"


def cells() -> Iterator[tuple[str, str]]:
    """Each exercise, and the code of its solution behind the lesson's imports."""
    for path in SOURCES.glob("*.py"):
        imports = ""
        for cell in path.read_text("utf-8").split("# %%"):
            tags, _, code = cell.partition("\n")
            imports += code if '"setup"' in tags else ""
            if found := re.search(r'"exercise:([^"]+)"', tags):
                yield found[1], f"{imports}\n{code}"


SOLUTIONS = dict(cells())


@pytest.fixture(autouse=True)
def _on_this_cpu(monkeypatch: pytest.MonkeyPatch, cells_here: None) -> None:
    monkeypatch.setenv("BRRR_SOURCE", "cpu")
    random.seed(1)  # now and then two mistakes come to the same number


def marked(exercise: str, old: str, new: str) -> Mark:
    """The mark of an exercise's solution with one piece of its text exchanged."""
    made: list[Mark] = []
    assert old in SOLUTIONS[exercise], (exercise, old)
    head, call, tail = SOLUTIONS[exercise].replace(old, new).rpartition("check(")
    exec(f"{head}made.append({call}{tail.rstrip()})", {"made": made})
    return made[0]


@pytest.mark.parametrize(
    ("exercise", "old", "new", "said"),
    [
        ("00-launches", "1002", "1000", "overhead-bound"),
        ("00-queue", "", "", "two clocks"),
        ("01-timer", "timer(call", "timer(call", "LIVE, CPU QUEUE"),
        ("01-timer", "=timer", "=lambda *given: min(timer(*given) for _ in range(3))", "by construction"),
        ("01-timer", "    call()\n    start", "    synchronize()\n    call()\n    start", "500 µs by"),
        ("02-trips", "", "", "2 transfers with 48 kB in place of 64 transfers"),
        ("02b-chunks", "20, best=10", "20.0, best=10.0", "with the cost of a launch, 10 take 1.44"),
        ("02b-pipeline", "", "", "2.57x as fast as one by one"),
        ("02b-pipeline", "    download.sync", "    upload.synchronize()\n    download.sync", "2.57x as fast"),
        ("03-ahead", "(5e-6 - 1e-6) * 4.2e12 / 8", "2**21", "2.1e+06 elements"),
        ("03-chatty", "quiet=quiet", "quiet=lambda x: ((x.T - x.mean(1)) / x.std(1)).T", "LIVE · "),
        ("04c-mend", LOOP, LOOP.replace("x * weight + bias", "bias + x * weight"), "nothing else"),
        ("04c-ridge", "width = 13.9 * 8 / 2", "width = 56", "147x"),
        ("04-knee", "intensity=33.5e12 / 4.8e12", "intensity=7", "56 multiplications"),
        ("04-slips", "4 * 2 * elements * iter", "8 * elements / (1 / iterations_per_s) #", "104 operations"),
        ("04-slips", "float_bytes=4", "float_bytes=32 / 8", "375 billion"),
        ("04b-mend", "step * 32 + thread", "511 - step * 32 - thread", "64 sectors"),
        ("05b-bytes", " + row", "", "117 MB become 50.3 MB, 2.33x less"),
        ("05-passes", "range(n)", "reversed(range(n))", "half the bytes"),
        ("06-capture", SIZE, "(lambda s: x / s.where(s > 1, 0 * s + 1))(x.square().mean().sqrt())", "one launch"),
        ("06b-floor", "8 * 1024 * 1024", "8 * (1024 * 1024 + 1024)", "cost 100 %"),
        ("06b-waits", "range(first, first + 8) if", "{*range(first, first + 8)} - {block} if", "no trip to L2"),
        ("07-slow-line", "8 * ceil(50257 / 8)", "50304", "47 unused words"),
        ("07-waves", "", "", "up to 512 columns"),
        ("08-combine", "", "", "8 products have become 2"),
        ("08-floor", "fetch = 4 * weights / 4.8e12", "fetch = 8.7e-7", "874 ns: in the figure"),
        ("08b-step", "batch=batch", "batch=28.0", "between 24 and 32"),
        ("08b-until", "", "", "6 tables"),
        ("09-sign", "", "", "the whole trick"),
        ("09b-scaling", "", "", "two levels unscaled"),
        ("09b-terms", "13 / 6", "2.2", "2.2x"),
        ("10-peak", "", "", "29.7 %"),
        ("10-regime", "", "", "6 programs"),
    ],
)
def test_right_answers(exercise: str, old: str, new: str, said: str) -> None:
    mark = marked(exercise, old, new)
    assert mark.right and said in mark.text, mark


@pytest.mark.parametrize(
    ("exercise", "old", "new", "said"),
    [
        ("00-launches", "1002", "1200", "side by side"),
        ("00-launches", "1002", "200", "work alone"),
        ("00-queue", "max(launched, done)", "done", "cannot start before it is launched"),
        ("00-queue", "max(launched, done)", "launched", "the later of two times"),
        ("00-queue", "return done", "return launched + sum(kernels_us)", "while the GPU runs this one"),
        ("00-queue", "return done", "return None", "as a number"),
        ("00-queue", "return done", "return float('nan')", "the later of two times"),
        ("01-events", "460 / 100,", "4.6e-6,", "Write microseconds"),
        ("01-events", "460 / 100,", "460,", "number of calls"),
        ("01-events", "10.6 - 460 / 100", "10.6", "That is all of it"),
        ("01-timer", TIMER, "    return 1.0", "no two events"),
        ("01-timer", "    for _ in range(100):\n        call()\n", "", "no two events"),
        ("01-timer", "    call()\n    start", "    start", "The first call"),
        ("01-timer", "range(100)", "range(1)", "One call lies"),
        ("01-timer", "range(100)", "range(5)", "5 calls lie"),
        ("01-timer", " / 100", "", "the time of 100 calls"),
        ("01-timer", "    synchronize()\n", "", "synchronize() first"),
        ("01-timer", " / 100", " * 10", "another number"),
        ("01-timer", "call()", "pass", "never calls"),
        ("01-timer", TIMER, "    start.elapsed(end)", "returned None"),
        ("01-timer", "range(100)", "iter(int, 1)", "1000 times"),
        ("01-timer", "timer(call, synchronize, event)", "timer()", "takes 0 positional arguments"),
        ("01-timer", "end = event()", "raise SystemExit(3)", "SystemExit: 3"),
        ("02-trips", "gpu.sin(numbers)", "gpu.sin(numbers); [gpu.send(p) for p in parts]", "34 transfers for 8 parts"),
        ("02-trips", "numbers = gpu.send(np", "[gpu.send(p) for p in parts]; numbers = gpu.send(np", "10 transfers"),
        ("02-trips", "gpu.sin(numbers)", "gpu.send(np.sin(gpu.fetch(numbers)))", "did not compute all"),
        ("02-trips", "range(4)", "range(1)", "Four sines"),
        ("02-trips", "np.concatenate(parts)", "np.concatenate(parts).astype(float)", "but sends 96 kB"),
        ("02-trips", ", np.cumsum(lengths)[:-1])", ", 1)", "returned 1 results"),
        ("02-trips", "np.cumsum(lengths)[:-1]", "7", "raised ValueError"),
        ("02-trips", "np.cumsum(lengths)[:-1]", "range(1, 8)", "has the shape (1,)"),
        ("02-trips", "return np", "return [gpu.send(p) for p in parts]; np", "still in the GPU's memory"),
        ("02-trips", "np.concatenate(parts)", "np.array([parts, None], object)", "makes one of several"),
        ("02-trips", "np.split(gpu.fetch(numbers)", "np.split(numbers", "TypeError"),
        ("02-trips", "range(4)", "range(0)", "not the sine"),
        ("02b-chunks", "20", "18", "90 % of the best rate"),
        ("02b-chunks", "20", "19", "(n + 2) / n"),
        ("02b-chunks", "best=10", "best=1", "nothing overlaps"),
        ("02b-chunks", "best=10", "best=100", "product smallest"),
        ("02b-pipeline", "upload.wait(free[buffer])", "download.synchronize()", "the host waits 13 times. 12 chunks"),
        ("02b-pipeline", "upload.wait(free[buffer])", "pass", "overwrites chunk"),
        ("02b-pipeline", "    download.synchronize()", "    pass", "returns before the last chunk is fetched"),
        ("02b-pipeline", "compute.wait(upload.record())", "pass", "with chunk 0 before it has arrived"),
        ("02b-pipeline", "download.wait(compute.record())", "pass", "with chunk 0 before it is computed"),
        ("02b-pipeline", "chunk % buffers", "0", "you use 1 of 3 buffers"),
        ("02b-pipeline", "chunk % buffers\n", "chunk\n        free += [None]\n", "goes to buffer 3, and there are 3"),
        ("02b-pipeline", "free[buffer] = ", "upload.wait(download.record()); free[buffer] = ", "than it needs"),
        ("02b-pipeline", "range(chunks)", "range(max(1, chunks - 1))", "of 12 chunks, not every one passes `upload`"),
        ("02b-pipeline", "compute.submit(chunk, buffer)", "compute.submit(chunk, buffer + 1)", "0 changes its buffer"),
        ("03-ahead", "(5e-6 - 1e-6) * 4.2e12 / 8", "5e-6 * 4.2e12 / 8", "kernel's start"),
        ("03-ahead", "/ 8", "/ 4", "read and written"),
        ("03-ahead", "/ 8", "", "Those are the bytes"),
        ("03-ahead", "/ 8", "/ 1024", "start and its bytes"),
        ("03-chatty", "return (x", "return torch.stack([(r - r.mean()) / r.std() for r in x]); (x", "3x is wanted"),
        ("03-chatty", "return (x", "return None; (x", "returned NoneType"),
        ("03-chatty", "return (x", "return x.half(); (x", "torch.float16"),
        ("03-chatty", "return (x", "return x[:1]; (x", "(1, 64)"),
        ("03-chatty", "return (x", "return x * float('nan'); (x", "NaN"),
        ("03-chatty", "return (x", "return x; (x", "differs"),
        ("03-chatty", "x.std(dim=1, ", "x.std(dim=1, correction=0, ", "divides by n;"),
        ("03-chatty", "dim=1, keepdim=True", "", "mean is that of all numbers"),
        ("03-chatty", "dim=1", "dim=0", "differs"),
        ("03-chatty", ", keepdim=True", "", "raised RuntimeError"),
        ("03-chatty", "return (x", "return x.sub_(x.mean(1, keepdim=True)); (x", "changes its input"),
        ("03-chatty", "return (x", "return torch.zeros_like(x) if len(x) < 9 else (x", "differs"),
        ("03-chatty", "quiet(x):", KEEPING, "with new numbers"),
        ("04c-mend", "        x * w", "        x = randn(64, 256)\n        x * w", "data is made inside"),
        ("04c-mend", "x * weight + bias", "x * weight + bias + x", "adds `x` once more"),
        ("04c-mend", "x * weight + bias", "x + x * weight", "adds `x` once more"),
        ("04c-mend", "x * weight + bias", "relu(x * weight + bias)", "ReLU is still timed"),
        ("04c-mend", "x * weight + bias", "x * weight", "layer itself is not computed"),
        ("04c-mend", "    synchronize()\n    return", "    return", "clock stops while"),
        ("04c-mend", "256)\n    synchronize()", "256)", "clock starts while"),
        ("04c-mend", " / 100", "", "not the time of one call"),
        ("04c-mend", "(clock() - start) / 100", "20e-6", "times nothing"),
        ("04c-mend", "(clock() - start) / 100", "float('nan')", "returned nan"),
        ("04c-mend", "x * weight + bias", "x * 2", "raised TypeError"),
        ("04c-ridge", "8 / 2", "4 / 2", "is written"),
        ("04c-ridge", "8 / 2", "8", "two FLOP"),
        ("04c-ridge", "13.9 * 8 / 2", "512", "equal to the ridge"),
        ("04c-ridge", "8192 / width", "8192", "times as long"),
        ("04-knee", "=33.5e12 / 4.8e12,", "=33.5 / 4.8e12,", "like by like"),
        ("04-knee", "=33.5e12 / 4.8e12,", "=4.8 / 33.5,", "not the other way"),
        ("04-knee", "=33.5e12 / 4.8e12,", "=67 / 4.8,", "peak of multiplications"),
        ("04-knee", "=33.5e12 / 4.8e12,", "=3,", "peak over the bandwidth"),
        ("04-knee", "* 8", "* 4", "it is written"),
        ("04-knee", "* 8", "", "How many bytes"),
        ("04-slips", "float_bytes=4", "float_bytes=8", "8 bytes are 64 bits"),
        ("04-slips", "float_bytes=4", "float_bytes=32", "A byte has 8 bits"),
        ("04-slips", "float_bytes=4", "float_bytes='four'", "number of bytes"),
        ("04-slips", "4 * 2 * elements *", "8 * 2 * elements /", "both slips"),
        ("04-slips", "4 * 2 * elements *", "4 * 2 * elements /", "the division is not"),
        ("04-slips", "4 * 2 *", "8 * 2 *", "8 bytes per float"),
        ("04-slips", "4 * 2 *", "4 *", "one access"),
        ("04-slips", "4 * 2 *", "2 *", "not bytes"),
        ("04-slips", "4 * 2 *", "8e-9 *", "GB/s"),
        ("04-slips", "4 * 2 *", "0 *", "expected"),
        ("04-slips", "4 * 2 *", "float('nan') *", "gave nan"),
        ("04-slips", "elements * repeat *", "elements * repeat /", "the same division"),
        ("04-slips", "elements * repeat *", "2 * elements * repeat *", "one FLOP"),
        ("04-slips", "elements * repeat *", "elements *", "`repeat` times"),
        ("04b-little", "400e-9", "400", "nanoseconds"),
        ("04b-little", "4.8e12 *", "4.8 *", "terabytes"),
        ("04b-little", "4.8e12 * 400e-9", "14545", "one multiprocessor"),
        ("04b-little", "4.8e12 * 400e-9", "1e6", "wrote 1e+06"),
        ("04b-little", "loads=ceil", "loads=float", "round up"),
        ("04b-little", "loads=", "loads=-1 + ", "round up"),
        ("04b-little", "loads=", "loads=8 + 0 * ", "you wrote 8 for `loads`"),
        ("04b-mend", "step * 32 + thread", "thread * 16 + step", "512 sectors"),
        ("04b-mend", "step * 32 + thread", "(thread % 16) * 32 + thread // 16 + 2 * step", "256 sectors"),
        ("04b-mend", "step * 32 + thread", "thread", "read 16 times"),
        ("04b-mend", "step * 32", "step * 33", "gave 512"),
        ("04b-mend", "step * 32", "step / 2", "no whole number"),
        ("05b-bytes", "eager=7 * large", "eager=7 * large / 4", "How many bytes"),
        ("05b-bytes", "eager=7", "eager=14", "eight bytes"),
        ("05b-bytes", "eager=7", "eager=4", "Those are the reads"),
        ("05b-bytes", "eager=7", "eager=3", "Those are the writes"),
        ("05b-bytes", "eager=7", "eager=6", "reads two large arrays"),
        ("05b-bytes", "eager=7", "eager=8", "the bias is a row"),
        ("05b-bytes", "eager=7", "eager=5.3", "Go through"),
        ("05b-bytes", "fused=3", "fused=2", "two large inputs"),
        ("05b-bytes", "fused=3", "fused=7", "need not go"),
        ("05b-bytes", "fused=3", "fused=5.1", "read once"),
        ("05-passes", "total, 0.0", "total, -9", "not relu"),
        ("05-passes", 'memory.write("y"', 'memory.write("t"', "not relu"),
        ("05-passes", 'read("b", i)', 'read("b", i) + 0 * memory.read("b", i)', "5 reads and writes"),
        ("05-passes", 'read("b", i)', 'read("t", i)', "KeyError"),
        ("05-transformer", "flop=flop", "flop=0.5", "six of them"),
        ("05-transformer", "flop=flop", "flop=flop / 2", "two FLOP"),
        ("05-transformer", "flop=flop", "flop=2 * tokens * 4 * width**2", "four times the width"),
        ("05-transformer", "nbytes=nbytes", "nbytes=2 * nbytes", "two bytes"),
        ("05-transformer", "nbytes=nbytes", "nbytes=12 * tokens * width * 2", "GELU"),
        ("05-transformer", "nbytes=nbytes", "nbytes=16 * tokens * width * 2", "reads two arrays"),
        ("05-transformer", "nbytes=nbytes", "nbytes=5", "reads its inputs"),
        ("05-transformer", "share=rest", "share=100 * rest", "from 0 to 1"),
        ("05-transformer", "share=rest", "share=1.3 * rest", "FLOP over FLOP/s"),
        ("06-capture", SIZE, "x / max(1, x.square().mean().sqrt().item())", "brings a number to Python"),
        ("06-capture", ".clamp(min=1)", "", "is wrong for an input of"),
        ("06-capture", SIZE, "x", "input of large numbers"),
        ("06-capture", SIZE, "x / x.square().mean().sqrt() if (x.numpy()**2).mean() > 1 else x", "replayed"),
        ("06-capture", "return x", "return 3", "returned int"),
        ("06-capture", "return x", "return x[:2]", "(2, 64)"),
        ("06-capture", "return x", "return x * __import__('torch').tensor(1.0)", "out of Python's numbers"),
        ("06-divide", "gtx1070=divide,", "gtx1070=divide**2,", "hidden x hidden"),
        ("06-divide", "gtx1070=divide,", "gtx1070=2 * divide,", "four bytes"),
        ("06-divide", "gtx1070=divide,", "gtx1070=4096,", "over the bandwidth"),
        ("06-divide", "h200=wider", "h200=divide * 4.2e12 / 256e9", "square"),
        ("06b-floor", "weight_bytes=weight_bytes", "weight_bytes=8 * 1024 * 1024", "bytes has each"),
        ("06b-floor", "weight_bytes=weight_bytes", "weight_bytes=4 * 1024 * 1024", "one layer"),
        ("06b-floor", "weight_bytes=weight_bytes", "weight_bytes=8 * 1024 * 4", "each pair"),
        ("06b-floor", "weight_bytes=weight_bytes", "weight_bytes=1", "1024 times 1024"),
        ("06b-floor", "memory_us=1e6 * ", "memory_us=", "unit"),
        ("06b-floor", "memory_us=1e6 * ", "memory_us=7e5 * ", "million"),
        ("06b-floor", "barriers_us=7", "barriers_us=8", "between two layers"),
        ("06b-floor", "barriers_us=7", "barriers_us=1", "One barrier"),
        ("06b-waits", "range(first, first + 8) if layer else []", "range(32)", "are enough"),
        ("06b-waits", " if layer else []", "", "are enough"),
        ("06b-waits", "first + 8)", "first)", "does not wait for block"),
        ("06b-waits", "range(first, first + 8)", "{*range(first, first + 8)} - {3}", "does not wait for block 3"),
        ("06b-waits", "range(first, first + 8)", "7", "gave 7"),
        ("07-slow-line", '"head"', '"up"', "`up` gets as many FLOP/s as its size allows"),
        ("07-slow-line", '"head"', '"body"', "you wrote 'body' for `line`"),
        ("07-slow-line", "8 * ceil(50257 / 8)", "50256", "fewer than the vocabulary's 50257 words"),
        ("07-slow-line", "8 * ceil(50257 / 8)", "50260", "do not begin at 16 bytes"),
        ("07-slow-line", "8 * ceil(50257 / 8)", "65536", "unused words cost time as well"),
        ("07-slow-line", "8 * ceil(50257 / 8)", "50264.0", "you wrote 50264.0 for `words`"),
        ("07-waves", "blocks=blocks", "blocks=32", "those are the tiles"),
        ("07-waves", "blocks=blocks", "blocks=64", "one column of tiles"),
        ("07-waves", "blocks=blocks", "blocks=16 * 385 / 256 * 4", "a part of a tile is computed as a whole one"),
        ("07-waves", "blocks=blocks", "blocks=100", "you wrote 100 for `blocks`"),
        ("07-waves", "waves=ceil", "waves=float", "a wave that is not full takes as long as a full one"),
        ("07-waves", "waves=", "waves=1 + ", "you wrote 2 for `waves`"),
        ("07-waves", "columns=2 * 256", "columns=513", "the first of the next column of tiles"),
        ("07-waves", "columns=2 * 256", "columns=385", "you wrote 385 for `columns`"),
        ("08-combine", "return torch.addmm", "return x @ w[:, :16]; torch.addmm", "returned (3, 16)"),
        ("08-combine", "x @ w, h, u)", "x @ w, h, 0 * u)", "the state's product is missing"),
        ("08-combine", "x @ w, h, u)", "0 * (x @ w), h, u)", "the input's product is missing"),
        ("08-combine", "x @ w, h, u)", "x @ w, 2 * h, u)", "the numbers differ"),
        (
            "08-combine",
            "torch.cat(w).t(), torch.cat(u).t()",
            "torch.cat(w[::-1]).t(), torch.cat(u[::-1]).t()",
            "gate 3",
        ),
        ("08-combine", "x @ w, h, u)", "x @ w.clone(), h, u)", "moves the weights at each step"),
        ("08-combine", "x @ w, h, u)", "x @ w + 0 * (x @ w), h, u)", "takes 3 products"),
        ("08-combine", ".chunk(4, dim=1)", "", "returned (3, 64)"),
        ("08-combine", ".chunk(4, dim=1)", ".t().chunk(4)", "gate 0 is (16, 3)"),
        ("08-combine", "return torch.addmm", "return [None] * 4; torch.addmm", "gate 0 is NoneType"),
        ("08-combine", "x @ w, h, u)", "x @ h, h, u)", "your function raised RuntimeError"),
        ("08-floor", "weight_bytes=4 * weights", "weight_bytes=weights", "one four is missing"),
        ("08-floor", "weight_bytes=4 *", "weight_bytes=0.25 *", "one gate's numbers"),
        ("08-floor", "weight_bytes=4", "weight_bytes=8", "with the input's weights"),
        ("08-floor", "weight_bytes=4", "weight_bytes=7", "not so many"),
        ("08-floor", "seconds=fetch", "seconds=2 * weights / 67e12", "that is the arithmetic"),
        ("08-floor", "seconds=fetch", "seconds=fetch + 2 * weights / 67e12", "sum of both"),
        ("08-floor", "seconds=fetch", "seconds=1e6 * fetch", "microseconds"),
        ("08-floor", "seconds=fetch", "seconds=3e-6", "you wrote 3e-06 for `seconds`"),
        ("08-floor", "batch=int", "batch=float", "take longer already"),
        ("08-floor", "batch=", "batch=1 + ", "take longer already"),
        ("08-floor", "(2 * weights)", "weights", "an FMA is two FLOP"),
        ("08-floor", "(2 * weights)", "(4 * weights)", "you wrote 13 for `batch`"),
        ("08b-step", "state_bytes=state_bytes", "state_bytes=8 * 1024 * 4", "what one block reads"),
        ("08b-step", "state_bytes=state_bytes", "state_bytes=96 * 8 * 1024", "numbers, not bytes"),
        ("08b-step", "state_bytes=state_bytes", "state_bytes=1024 * 1024 * 4", "those are the weights"),
        ("08b-step", "state_bytes=state_bytes", "state_bytes=32 * 8 * 1024 * 4", "that is one group"),
        ("08b-step", "seconds = max", "seconds = min", "reading the state alone"),
        ("08b-step", "seconds=seconds", "seconds=4.125e-7", "the arithmetic alone"),
        ("08b-step", "seconds=seconds", "seconds=1.13e-6", "sum of all three"),
        ("08b-step", "seconds=seconds", "seconds=0.49", "you wrote 0.49 for `seconds`"),
        ("08b-step", "batch=batch", "batch=29", "takes longer than the exchange"),
        ("08b-step", "batch=batch", "batch=32", "you wrote 32 for `batch`"),
        ("08b-until", "            break", "            continue", "faster again at 4"),
        ("08b-until", "sorted(set(ours) & set(theirs))", "(b for b in ours if b in theirs)", "in no order"),
        (
            "08b-until",
            "& set(theirs)):\n        if ours[batch] >= theirs[batch]",
            "):\n        if ours[batch] >= theirs.get(batch, 9)",
            "one way",
        ),
        ("08b-until", "return last", "return last or None", "faster at none"),
        ("09-sign", "m1 - m2", "m1 + m2", "and besides 2 A21 B11 + 2 A22 B11.\nHint: Look at M2 in C22"),
        ("09-sign", "m1 - m2", "m1 - 1.0 * m2", "whole numbers"),
        ("09-sign", "return c11, c12, c21, c22", "return c11, c12, c21", "for seven numbers"),
        ("09-sign", "return c11, c12, c21, c22", "return c22, c21, c12, c11", "C11"),
        ("09b-scaling", " * columns", "", "not a @ b"),
        ("09b-scaling", "amax(1, keepdim=True)", "amax()", "worst row's error"),
        ("09b-scaling", ".log2().floor().exp2()", "", "whole numbers do not"),
        ("09b-scaling", "    return", "    a /= 2; rows *= 2\n    return", "changed a or b"),
        ("09b-scaling", "return multiply(a", "return torch.mm(a", "NameError"),
        ("09b-scaling", "return multiply(a", "return a @ b; multiply(a", "called 0 times"),
        ("09b-scaling", " * columns", " * columns[:1]", "not a @ b"),
        ("09b-terms", "terms=3", "terms=4", "4 times 8 bits are not 24"),
        ("09b-terms", "products=6", "products=9", "every pair"),
        ("09b-terms", "products=6", "products=3", "with its like"),
        ("09b-terms", "products=6", "products=5", "below 3"),
        ("09b-terms", "13 / 6", "13", "for one matmul"),
        ("10-peak", "flop=flop", "flop=flop / 3", "forward alone"),
        ("10-peak", "flop=flop", "flop=flop / 2", "two FLOP"),
        ("10-peak", "flop=flop", "flop=flop / 6", "multiplications"),
        ("10-peak", "share=flop", "share=100 * flop", "percent"),
        ("10-peak", "flop / 2.1e-3", "flop / 0.83e-3", "matmuls run"),
        ("10-peak", "at_most=2.1 / 0.83", "at_most=0.83 / 2.1", "a share"),
        ("10-regime", 'return "overhead"', 'return "fast"', "Return one of"),
        ("10-regime", "if graph >= 1.3 * half", "if graph >= 1.01 * half", "nothing gains"),
        ("10-regime", "eager >= 1.3 * graph", "False", "five times as fast"),
    ],
)
def test_each_slip_is_told(exercise: str, old: str, new: str, said: str) -> None:
    mark = marked(exercise, old, new)
    assert mark.status == "wrong" and said.lower() in repr(mark).lower(), mark
    assert mark.hint or "your function raised" in mark.text


@pytest.mark.parametrize("exercise", exercises())
def test_what_is_no_answer_is_wrong_and_gets_a_hint(exercise: str) -> None:
    found, raising = exercises()[exercise], "your function raised ZeroDivisionError"
    for name in found.takes if exercise in calculated() else found.functions:
        for junk in (None, True, "one", [1]):
            answers: dict[str, Any] = dict.fromkeys(found.takes, 1) | dict.fromkeys(found.functions, len)
            answers |= {"line": "head"} if exercise == "07-slow-line" and name != "line" else {}
            mark = check(exercise, **{**answers, name: junk})
            assert mark.status == "wrong" and repr(junk) in mark.text and mark.hint, mark
    if found.takes == found.functions:
        assert raising in check(exercise, **dict.fromkeys(found.takes, lambda *_: 1 / 0)).text


@pytest.mark.parametrize("number", [0, -1, math.nan, math.inf])
def test_answers_above_0_are_finite(number: float) -> None:
    for exercise, table in tables().items():
        for name, each in table["answers"].items():
            if not {"words", "kind", "arguments"} & {*each}:
                mark = check(exercise, **{**dict.fromkeys(table["answers"], 1), name: number})
                assert mark.status == "wrong" and repr(number) in mark.text and mark.hint


def test_code_that_never_ends_is_told_with_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def finished(*_: object) -> float:
        while True:
            pass

    monkeypatch.setattr(marks, "LIMIT_S", 0.2)
    mark = check("00-queue", finished=finished)
    assert mark.status == "wrong" and mark.text.startswith("your function did not return within 0.2 s\nin line ")
    assert mark.text.endswith(("while True:", "pass"))


def test_an_interrupt_is_one_line() -> None:
    def finished(*_: object) -> float:
        raise KeyboardInterrupt

    assert check("00-queue", finished=finished) == Mark(
        "not answered", "it was interrupted before your function returned."
    )


@pytest.mark.parametrize(
    ("name", "answers", "expected"),
    [
        ("00-launch", {"microseconds": 1}, "check: exercise is '00-launch'; expected its name, such as 00-launches"),
        ("", {}, "check: exercise is ''; expected its name"),
        ("00-launches", {"micro": 1}, """check: answers is 'micro'; expected check("00-launches", microseconds=...)"""),
    ],
)
def test_a_misspelt_call_is_one_line(name: str, answers: dict[str, Any], expected: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        check(name, **answers)
    (shown,) = raised.value._render_traceback_()  # what a notebook shows in place of the frames
    assert shown.startswith(f"ArgumentError: {expected}") and "\n" not in shown


def test_an_older_copy_finds_an_exercise_that_has_another_name_now() -> None:
    bytes_of = {"eager": 7 * 4 * 4096 * 1024 + 4096, "fused": 3 * 4 * 4096 * 1024 + 4096}
    assert check("05-bytes", **bytes_of).right and check("05b-bytes", **bytes_of).right
    with pytest.raises(ArgumentError, match="05b-bytes"):
        check("05-byte", **bytes_of)
