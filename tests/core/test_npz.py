"""Arrays of files from elsewhere: as NumPy writes them in one dimension, to the byte, or a ValueError."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brrr.core.npz import array, members


def saved(values: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(values), allow_pickle=True)
    return file.getvalue()


TYPES = ["<f2", "<f4", "<f8", "|u1", "<u2", "<u8", "|i1", "<i4", "<i8"]


@given(st.lists(st.integers(0, 100), max_size=20), st.sampled_from(TYPES), st.binary(max_size=9), st.integers(0, 200))
def test_numbers_come_back_and_no_byte_is_left_over(values: list[int], kind: str, more: bytes, cut: int) -> None:
    content = saved(np.array(values, kind))
    assert array(content).tolist() == values and array(content).dtype == kind
    for wrong in (content + more if more else b"", content[: min(cut, len(content) - 1)]):
        with pytest.raises(ValueError, match="expected numbers or texts"):
            array(wrong)


@given(st.lists(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=9), min_size=1, max_size=9))
def test_texts_come_back(values: list[str]) -> None:
    assert array(saved(values)).tolist() == values


@pytest.mark.parametrize("values", [np.ones((2, 2)), np.array(1.0), np.array([{}], object), np.array([b"x"]),
                                    np.array([1j]), np.array([True]), np.ones(2, ">f4")])  # fmt: skip
def test_others_are_refused(values: object) -> None:
    with pytest.raises(ValueError, match="expected numbers or texts"):
        array(saved(values))


@given(st.binary(max_size=300))
def test_what_is_no_archive_is_one_error(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        members(content, 1000)
