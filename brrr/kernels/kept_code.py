"""Compiled kernels kept on the disk, so that a second process need not compile them again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from brrr.kernels.nvrtc import check, compile_cubin
from brrr.user_cache import cache_folder, keep, kept

ELF = b"\x7fELF"


def kept_cubin(source_name: str, arch: str) -> bytes:
    """The machine code of a `.cu` file beside this one, such as for "sm_90": from the cache, else compiled and kept.

    A file of the cache is named by a hash of the source, the architecture and the compiler's version, so that an old
    one is never taken for a new one. Sources must include no other file.
    """
    source = (Path(__file__).parent / source_name).read_text(encoding="utf-8")
    path = cache_folder() / "kernels" / f"{Path(source_name).stem}-{fingerprint(source, arch, compiler())}.cubin"
    found = kept(path)
    if found is not None and found.startswith(ELF):
        return found
    code = compile_cubin(source, source_name, arch)
    keep(path, code)
    return code


def fingerprint(*parts: str) -> str:
    """What tells one compilation from another, in 20 letters.

    >>> fingerprint("a", "bc") == fingerprint("ab", "c")
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:20]


def compiler() -> str:
    """NVRTC's version, such as "NVRTC 13.0"."""
    from cuda.bindings import nvrtc

    major, minor = check(nvrtc.nvrtcVersion(), "NVRTC's version")
    return f"NVRTC {major}.{minor}"


def kept_for(source_name: str, device_index: int) -> bytes:
    """`kept_cubin` for a GPU, by torch's index."""
    import torch

    major, minor = torch.cuda.get_device_capability(device_index)
    return kept_cubin(source_name, f"sm_{major}{minor}")
