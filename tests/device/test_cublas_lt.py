"""The choice between cuBLAS and cuBLASLt, played on the CPU: what is asked for, what is chosen, what is given back."""

import ctypes
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from played_blas import PlayedBlas, columns, played

from brrr.core.errors import UnavailableError
from brrr.gpu import cublas, cublas_lt

OFFERED, OFFERED_WITHOUT = (0, 1, 2), (1, 3)


class RefusedError(Exception):
    """As nvmath's own errors: no RuntimeError."""


class RefusedBlasError(Exception):
    """The other library's."""


class PlayedLt:
    """cuBLASLt's words on CPU memory; algorithm number i has i in its first word, and 2 is refused when it is run.

    It offers 0, 1 and 2, and without a workspace 1 and 3.
    """

    cuBLASLtError = RefusedError

    def __init__(self) -> None:
        self.things: dict[int, Any] = {}
        self.run: list[int] = []
        self.allowed: list[int] = []

    def _make(self, thing: Any) -> int:
        self.things[len(self.things) + 1 + 1000 * len(self.run)] = thing
        return list(self.things)[-1]

    def create(self) -> int:
        return self._make("handle")

    def matmul_desc_create(self, how: int, scale: int) -> int:
        return self._make(["operation", how, scale])

    def matmul_desc_set_attribute(self, desc: int, attribute: int, at: int, size: int) -> None:
        assert (attribute, size) == (3, 4)
        self.things[desc].append(ctypes.c_int32.from_address(at).value)

    def matrix_layout_create(self, code: int, rows: int, columns: int, leading: int) -> int:
        return self._make((code, rows, columns, leading))

    def matmul_preference_create(self) -> int:
        return self._make("preference")

    def matmul_preference_set_attribute(self, preference: int, attribute: int, at: int, size: int) -> None:
        assert (attribute, size) == (1, 8)
        self.allowed.append(ctypes.c_size_t.from_address(at).value)

    def destroyed(self, thing: int) -> None:
        del self.things[thing]

    destroy = matmul_preference_destroy = matmul_desc_destroy = matrix_layout_destroy = destroyed

    def matmul_algo_get_heuristic(self, handle: int, *rest: int) -> None:
        *_, count, found, returned = rest
        results = (cublas_lt.Heuristic * count).from_address(found)
        offered = OFFERED if self.allowed[-1] else OFFERED_WITHOUT
        for result, number in zip(results, offered, strict=False):
            result.algorithm[0] = number
        ctypes.c_int.from_address(returned).value = len(offered)

    def matmul(
        self, handle: int, desc: int, one: int, a: int, a_at: int, b: int, b_at: int, zero: int, c: int, c_at: int,
        d: int, d_at: int, algorithm: int, workspace: int, size: int, stream: int,
    ) -> None:  # fmt: skip
        self.run.append(ctypes.c_uint64.from_address(algorithm).value)
        if self.run[-1] == 2:
            raise RefusedError("not supported")
        assert self.things[desc][3] == 1 and (c, c_at) == (d, d_at) and (workspace, stream) == (4096, 7)
        assert ctypes.c_float.from_address(one).value == 1 and ctypes.c_float.from_address(zero).value == 0
        left, right, result = (self.things[at] for at in (a_at, b_at, d_at))
        wanted = columns(a, left[3], left[2]).t() @ columns(b, right[3], right[2])
        columns(d, result[3], result[2]).copy_(wanted)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> PlayedLt:
    lt = PlayedLt()
    monkeypatch.setattr(cublas_lt, "lt_bindings", lambda: lt)
    monkeypatch.setattr(cublas_lt, "bindings", PlayedBlas)
    monkeypatch.setattr(PlayedBlas, "cuBLASError", RefusedBlasError, raising=False)
    monkeypatch.setattr(cublas_lt, "_CHOSEN", {})
    monkeypatch.setattr(cublas_lt, "ALIGNMENT", 1)
    monkeypatch.setattr(cublas.Blas, "workspace_address", 4096)
    return lt


def handle(monkeypatch: pytest.MonkeyPatch) -> tuple[cublas.Blas, PlayedBlas]:
    blas, plain = played(monkeypatch)
    blas.stream, blas._beside = 7, {}
    monkeypatch.setattr(plain, "destroy", lambda _: None, raising=False)
    return blas, plain


class PlayedBare(PlayedBlas):
    """cuBLAS without a workspace."""

    def sgemm(self, *args: int) -> None:
        super().sgemm(*args)
        self.calls[-1] = "bare"

    def destroy(self, _: int) -> None:
        pass


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> PlayedBare:
    """What stands for the handle without a workspace."""
    blas, plain = handle(monkeypatch)[0], PlayedBare()
    blas._cublas = plain
    monkeypatch.setattr(cublas_lt, "_bare", lambda _: blas)
    return plain


PLAIN, BARE = -1, -2


def timed(monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare, times: dict[int, float]) -> list[int]:
    """Times by the algorithm's number, or PLAIN or BARE; which of them were timed is noted, call by call of one try."""
    tried: list[int] = []

    def seconds(run: Callable[[], None], stream: int, device: int, limit: float) -> float:
        before = len(library.run), len(bare.calls)
        run()
        after = len(library.run), len(bare.calls)
        which = library.run[-1] if after[0] > before[0] else BARE if after[1] > before[1] else PLAIN
        tried.append(which)
        return times[which]

    monkeypatch.setattr(cublas_lt, "seconds", seconds)
    return tried


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({PLAIN: 9, BARE: 9, 0: 8, 1: 5, 3: 6}, 1),
        ({PLAIN: 9, BARE: 9, 0: 7, 1: 6, 3: 5}, 3),
        ({PLAIN: 9, BARE: 4, 0: 7, 1: 6, 3: 5}, BARE),
        ({PLAIN: 9, BARE: 8.9, 0: 8.9, 1: 8.8, 3: 9}, PLAIN),
        ({PLAIN: 9, BARE: math.nan, 0: math.nan, 1: math.nan, 3: math.nan}, PLAIN),
    ],
)
def test_the_fastest_is_chosen_once(
    monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare, times: dict[int, float], chosen: int
) -> None:
    blas, plain = handle(monkeypatch)
    tried = timed(monkeypatch, library, bare, times)
    x, w, out = torch.randn(3, 5), torch.randn(4, 5), torch.empty(3, 4)
    for _ in range(2):
        run = cublas_lt.fastest_product(blas, x, w, out)
        assert tried == [PLAIN, BARE, 0, 1, 3], "each once, and for the first call alone"
        library.run.clear()
        plain.calls.clear()
        bare.calls.clear()
        out.fill_(math.nan)
        run()
        torch.testing.assert_close(out, x @ w.t(), rtol=1e-5, atol=1e-5)
        assert library.run == ([chosen] if chosen >= 0 else [])
        assert plain.calls == (["sgemm"] if chosen == PLAIN else []) and bare.calls == (
            ["bare"] if chosen == BARE else []
        )
    assert library.allowed == [cublas.WORKSPACE_BYTES, 0]
    blas.close()
    assert not library.things, "everything is given back"


def test_the_weights_take_turns_while_it_is_tried(
    monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare
) -> None:
    blas, _ = handle(monkeypatch)
    x, out = torch.randn(3, 5), torch.empty(3, 4)
    weights = [torch.randn(4, 5) for _ in range(3)]
    seen: list[int] = []

    def seconds(run: Callable[[], None], stream: int, device: int, limit: float) -> float:
        for _ in range(4):
            run()
            seen.extend(i for i, w in enumerate(weights) if torch.allclose(out, x @ w.t(), atol=1e-5))
        return 1.0

    monkeypatch.setattr(cublas_lt, "seconds", seconds)
    cublas_lt.fastest_product(blas, x, weights[1], out, among=weights)()
    assert seen == [0, 1, 2, 0] * 5
    torch.testing.assert_close(out, x @ weights[1].t(), rtol=1e-5, atol=1e-5)
    cublas_lt.fastest_product(blas, x, weights[2], out, among=weights)
    assert len(seen) == 20, "the choice for so many weights is known"
    cublas_lt.fastest_product(blas, x, weights[2], out)
    assert len(seen) == 40, "but not that for one"


def test_without_cublaslt_there_is_still_a_choice(
    monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare
) -> None:
    def missing(blas: cublas.Blas) -> None:
        raise UnavailableError("none")

    blas, _ = handle(monkeypatch)
    tried = timed(monkeypatch, library, bare, {PLAIN: 9, BARE: 5})
    monkeypatch.setattr(cublas_lt, "Lt", missing)
    x, w, out = torch.randn(3, 5), torch.randn(4, 5), torch.empty(3, 4)
    cublas_lt.fastest_product(blas, x, w, out)()
    assert tried == [PLAIN, BARE] and bare.calls[-1] == "bare" and not library.run
    torch.testing.assert_close(out, x @ w.t(), rtol=1e-5, atol=1e-5)


def test_a_refusal_is_the_librarys_and_a_mistake_is_ours(
    monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare
) -> None:
    """A candidate that a library refuses is left out; any other error comes to light."""
    blas, _ = handle(monkeypatch)
    tried = timed(monkeypatch, library, bare, {PLAIN: 9, BARE: 9, 0: 8, 1: 5, 3: 6})
    x, w, out = torch.randn(3, 5), torch.randn(4, 5), torch.empty(3, 4)

    def raising(error: Exception) -> Callable[..., None]:
        def call(*_: int) -> None:
            raise error

        return call

    monkeypatch.setattr(bare, "sgemm", raising(RefusedBlasError("not supported")))
    cublas_lt.fastest_product(blas, x, w, out)
    assert tried == [PLAIN, 0, 1, 3]
    cublas_lt._CHOSEN.clear()
    monkeypatch.setattr(library, "matmul_algo_get_heuristic", raising(RefusedError("not supported")))
    cublas_lt.fastest_product(blas, x, w, out)
    assert tried == [PLAIN, 0, 1, 3, PLAIN]
    for where, name in ((bare, "sgemm"), (library, "matmul_algo_get_heuristic"), (library, "matmul")):
        cublas_lt._CHOSEN.clear()
        with monkeypatch.context() as spoilt:
            spoilt.setattr(where, name, raising(TypeError("a wrong argument")))
            if name == "matmul":
                spoilt.setattr(
                    library, "matmul_algo_get_heuristic", PlayedLt.matmul_algo_get_heuristic.__get__(library)
                )
            with pytest.raises(TypeError, match="a wrong argument"):
                cublas_lt.fastest_product(blas, x, w, out)


def test_a_library_that_makes_no_handle_is_not_here(monkeypatch: pytest.MonkeyPatch, library: PlayedLt) -> None:
    def create() -> int:
        raise RuntimeError("libcublasLt.so not found")

    monkeypatch.setattr(library, "create", create)
    blas, _ = handle(monkeypatch)
    with pytest.raises(UnavailableError, match="makes no handle"):
        cublas_lt.Lt(blas)


@pytest.mark.parametrize("what", ["misaligned", "empty", "captured"])
def test_where_nothing_is_tried(
    monkeypatch: pytest.MonkeyPatch, library: PlayedLt, bare: PlayedBare, what: str
) -> None:
    blas, plain = handle(monkeypatch)
    tried = timed(monkeypatch, library, bare, {PLAIN: 9, BARE: 1, 0: 1, 1: 1, 3: 1})
    if what == "misaligned":
        monkeypatch.setattr(cublas_lt, "ALIGNMENT", 1 << 60)
    if what == "captured":
        monkeypatch.setattr(cublas_lt, "capturing", lambda: True)
    x, w = torch.randn(0 if what == "empty" else 3, 5), torch.randn(4, 5)
    out = torch.empty(len(x), 4)
    cublas_lt.fastest_product(blas, x, w, out)()
    assert plain.calls == ([] if what == "empty" else ["sgemm"]) and not library.run and not tried


def test_true_float32_is_asked_for_as_such(monkeypatch: pytest.MonkeyPatch, library: PlayedLt) -> None:
    blas, _ = handle(monkeypatch)
    lt = cublas_lt.Lt(blas)
    for tf32, how in ((False, 68), (True, 77)):
        lt.candidates((0, 3, 4, 5, "float32", tf32))
        operation = list(library.things.values())[1 if not tf32 else 5]
        assert operation == ["operation", how, 0, 1]
    assert ctypes.sizeof(cublas_lt.Heuristic) == 96, "as in the library's header"


def test_without_the_library_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas_lt, "bindings", lambda: SimpleNamespace())
    with pytest.raises(UnavailableError, match="cuBLASLt cannot be called"):
        cublas_lt.lt_bindings()
