"""The sources' figures: whole, in range, and saying what their text says of them."""

import doctest
from collections.abc import Callable
from pathlib import Path
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.core.errors import ArgumentError, RecordingError
from brrr.core.files import share
from brrr_course.experiments import published

FOLDER = share("data") / "published"
SPEEDUP = {(r.layers, r.batch, r.hidden, r.variant): r.speedup for r in published.mlp_speedups()}
BATCHES = sorted({batch for _, batch, _, _ in SPEEDUP})


def gain(variant: str, over: str) -> dict[tuple[int, int, int], float]:
    """What one variant adds to another, by layers, batch and hidden size."""
    return {(n, b, h): value / SPEEDUP[n, b, h, over] for (n, b, h, v), value in SPEEDUP.items() if v == variant}


def test_doctests() -> None:
    result = doctest.testmod(published)
    assert (result.failed, result.attempted) == (0, 2)


def test_the_grid_is_complete() -> None:
    assert len(SPEEDUP) == 4 * 7 * 6 * 3
    assert BATCHES == [2, 4, 8, 16, 32, 64, 128]


def test_overhead_claims() -> None:
    small = [SPEEDUP[8, batch, hidden, "overhead"] for batch in BATCHES for hidden in (128, 256, 512)]
    large = [SPEEDUP[8, batch, hidden, "overhead"] for batch in BATCHES for hidden in (2048, 4096)]
    assert mean(small) == pytest.approx(1.73, abs=0.005)
    assert mean(large) == pytest.approx(1.05, abs=0.0051)
    assert min(value for (*_, variant), value in SPEEDUP.items() if variant == "overhead") > 1


def test_fusion_claims() -> None:
    added = gain("fusion", "overhead")
    assert max(value for (layers, *_), value in added.items() if layers == 1) == pytest.approx(1.14, abs=0.005)
    assert max(value for (layers, *_), value in added.items() if layers == 8) == pytest.approx(1.24, abs=0.01)


def test_strassen_claims() -> None:
    added = gain("strassen", "fusion")
    large = {point for point in added if point[1] >= 64 and point[2] >= 1024}
    assert {point for point, value in added.items() if value > 1} == large
    assert mean(added[point] for point in large if point[0] == 8) == pytest.approx(1.3, abs=0.01)
    assert max(added.values()) == pytest.approx(1.53, abs=0.005)


def test_pseudo_linear_gains_with_width() -> None:
    for table in published.TABLES:
        rows = published.pseudo_linear(table)
        assert [row.width for row in rows] == sorted({row.width for row in rows})
        assert rows[-1].speedup == max(row.speedup for row in rows)


def test_a_cuda_graph_helps_at_every_width() -> None:
    eager = {row.width: row.speedup for row in published.pseudo_linear("gpu_b_eager")}
    assert all(row.speedup > eager[row.width] for row in published.pseudo_linear("gpu_b_cuda_graph"))


def test_unknown_table_is_named() -> None:
    with pytest.raises(ArgumentError, match="table is 'gpu_c'"):
        published.pseudo_linear("gpu_c")


Damage = Callable[[str], str]
MLP, PSEUDO = "mlp_speedup_gtx1070.csv", "pseudo_linear.csv"


@pytest.mark.parametrize(
    ("file", "damage", "message"),
    [
        (MLP, lambda text: text.replace("overhead_128", "overhead_127"), "row 1: the columns are"),
        (MLP, lambda text: text.replace("8,128,1.7,", "8,128,nan,"), "row 2: overhead_128 is 'nan'"),
        (MLP, lambda text: text.replace("8,128,1.7,", "8,128,-1.7,"), "row 2: overhead_128 is '-1.7'"),
        (MLP, lambda text: text.replace("8,128,1.7,", "8,12.8,1.7,"), "row 2: batch is '12.8'"),
        (MLP, lambda text: text.replace("8,128,1.7,", "8,64,1.7,"), "stands there twice"),
        (MLP, lambda text: text[:300], "row 2: it has "),
        (MLP, lambda text: "", "row 1: the columns are"),
        (MLP, lambda text: text.splitlines()[0], "it has no rows"),
        (PSEUDO, lambda text: text.replace("gpu_a_eager,128", "gpu_z,128"), "row 2: table is 'gpu_z'"),
        (PSEUDO, lambda text: text.replace("gpu_a_eager,128", "gpu_a_eager,0"), "row 2: width is '0'"),
        (PSEUDO, lambda text: text.replace("0.9691576570785311", "fast"), "row 2: speedup is 'fast'"),
        (PSEUDO, lambda text: text.replace("0.9691576570785311", "1e9"), "row 2: speedup is '1e9'"),
    ],
)
def test_damage_is_named(tmp_path: Path, file: str, damage: Damage, message: str) -> None:
    whole = (FOLDER / file).read_text(encoding="utf-8")
    damaged = damage(whole)
    assert damaged != whole
    (tmp_path / file).write_text(damaged, encoding="utf-8")
    read = published.read_mlp_speedups if file == MLP else published.read_pseudo_linear
    with pytest.raises(RecordingError, match=message) as raised:
        read(tmp_path / file)
    assert file in str(raised.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match=r"gone\.csv: cannot be read"):
        published.read_pseudo_linear(tmp_path / "gone.csv")


@given(text=st.text(max_size=80))
def test_any_other_text_is_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("published") / PSEUDO
    path.write_text("table,width,speedup\n" + text, encoding="utf-8")
    with pytest.raises(RecordingError):
        published.read_pseudo_linear(path)
