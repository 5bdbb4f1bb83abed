"""Files of arrays as `numpy.savez` writes them, read strictly: NumPy's own reader takes headers and shapes of any size.

>>> import io, numpy
>>> file = io.BytesIO()
>>> numpy.savez(file, seconds=[0.5, 0.25])
>>> array(members(file.getvalue(), most=1000)["seconds.npy"]).tolist()
[0.5, 0.25]
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import Any
from zipfile import BadZipFile, ZipFile

HEADER = re.compile(rb"(?s)\x93NUMPY\x01\0..\{'descr': '([<|](?:f[248]|[iu][1248]|U[1-9]\d{0,3}))', "
                    rb"'fortran_order': False, 'shape': \((\d{1,9}),\), \} *\n")  # fmt: skip
"""What NumPy writes before numbers or texts in one dimension."""
DAMAGES = (BadZipFile, OSError, EOFError, ValueError, LookupError, RuntimeError, struct.error, zlib.error)
"""What zipfile raises of a damaged file; RuntimeError is of an encrypted one, or one zipped in another way."""


def members(content: bytes, most: int, begins: str = "") -> dict[str, bytes]:
    """What each member holds whose name begins so; ValueError for a damaged file, or more than `most` bytes in all."""
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            if sum(each.file_size for each in archive.infolist()) > most:
                raise ValueError(f"unpacked it has more than {most >> 20} MB")
            if len(set(names)) < len(names):
                raise ValueError("two of its members have one name")
            return {name: archive.read(name) for name in names if name.startswith(begins)}
    except DAMAGES as error:
        raise ValueError(str(error)) from None


def array(content: bytes) -> Any:
    """The array of a member; ValueError unless its bytes are exactly those that its header tells."""
    import numpy as np

    header = HEADER.match(content)
    if header is None or len(content) - header.end() != np.dtype(header[1].decode()).itemsize * int(header[2]):
        raise ValueError("expected numbers or texts in one dimension, as many as it tells")
    return np.frombuffer(content[header.end() :], header[1].decode())
