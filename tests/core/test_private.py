"""Code that is run from a cache: nobody else can have put it there."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from brrr.cli import clean, doctor
from brrr.core.files import PACKAGE
from brrr.core.private import COMPILED, KEPT, keep_compiled_code_private, private_folder
from brrr_course.sources.live import Live

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders there are the user's own")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BRRR_CACHE", str(tmp_path / "cache"))
    for variable in COMPILED:
        monkeypatch.setenv(variable, "")
    return tmp_path / "cache"


def test_a_folder_of_the_cache_is_its_owner_s_alone(cache: Path) -> None:
    assert private_folder("kernels") == cache / "kernels" and (cache / "kernels").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, 0o720, 0o702, 0o700, 0o755, 0o750, 0o711])
def test_what_others_could_write_is_not_run_and_what_nobody_else_could_is_kept(cache: Path, mode: int) -> None:
    """Whether its group or everybody may write, the folder or what is above it."""
    (cache / "inductor").mkdir(parents=True)
    (cache / "inductor" / "there").touch()
    for folder in (cache, cache / "inductor"):
        folder.chmod(mode)
    others_write = bool(mode & 0o022)
    assert [each.name for each in private_folder("inductor").iterdir()] == ([] if others_write else ["there"])
    rights = [folder.stat().st_mode & 0o777 for folder in (cache, cache / "inductor")]
    assert rights == ([mode & 0o755, 0o700] if others_write else [mode, mode])


@pytest.mark.parametrize("whose", ["another's", "a file"])
def test_where_the_cache_can_have_none_it_is_one_for_this_process(
    cache: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if whose == "a file":
        cache.touch()
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    found = private_folder("inductor")
    assert found != cache / "inductor" and found.stat().st_mode & 0o777 == 0o700 and private_folder("inductor") == found
    shutil.rmtree(found)


def test_torch_s_own_choice_is_replaced_and_somebody_s_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/tmp/torchinductor_ada")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/scratch/mine")
    keep_compiled_code_private()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(cache / "inductor")
    assert os.environ["TRITON_CACHE_DIR"] == "/scratch/mine"


def test_measuring_here_keeps_compiled_code_private(cache: Path) -> None:
    Live("cpu")
    assert [os.environ[variable] for variable in COMPILED] == [str(cache / name) for name in COMPILED.values()]


def test_cleaning_lists_first(cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With `--yes` the caches go, one's own where it is named alone, and what is nobody's of these never."""
    monkeypatch.setattr(clean, "system_folder", lambda of: cache.parent / of)
    for folder in (cache / "kernels", cache / "somebody's", cache.parent / "data" / "brrr" / "recordings"):
        folder.mkdir(parents=True)
        (folder / "file").write_bytes(bytes(1500))
    for words, rest in (("", 3), ("--yes", 2), ("recordings", 2), ("recordings --yes", 1)):
        assert doctor.main(["--clean", *words.split()]) == 0 and "1.5 kB" in (told := capsys.readouterr().out)
        assert len([*cache.parent.rglob("file")]) == rest and ("this stays" in told) != ("recordings" in words)
    assert (cache / "somebody's" / "file").is_file() and not (cache.parent / "data" / "brrr").exists()
    with pytest.raises(ValueError, match=r"--clean is 'triton/\.\.'; expected no name, or some of kernels"):
        doctor.main(["--clean", "triton/..", "--yes"])


def test_every_folder_of_the_cache_can_be_named() -> None:
    texts = [path.read_text("utf-8") for path in PACKAGE.parent.glob("brrr*/**/*.py")]
    named = {name for text in texts for name in re.findall(r'private_folder\("(\w+)"\)', text)}
    assert named | {*COMPILED.values()} == KEPT.keys()
