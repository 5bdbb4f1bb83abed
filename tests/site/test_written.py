"""Where the pages go: what no build wrote stays, and a folder that cannot take them is refused before the minutes."""

import os
import random
from pathlib import Path

import pytest

from brrr.core.errors import ArgumentError, BrrrError
from brrr_course.nouns.places import share
from brrr_course.site import build as site
from brrr_course.site import written
from brrr_course.site.written import LIST, replace_all


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("round_", range(20))
def test_builds_replace_their_own_files_and_nothing_else(tmp_path: Path, round_: int) -> None:
    """Builds of drawn files, and between them a stranger who adds, changes and removes."""
    rng = random.Random(round_)
    names = [f"{place}{number}.html" for place in ("", "notebooks/", "a b/") for number in range(4)]
    foreign: dict[str, bytes] = {}
    out, built = tmp_path / "out", dict[str, bytes]()
    for _ in range(6):
        new = {name: rng.randbytes(4) for name in rng.sample(names, 6)}
        blocked = [name for name in new if name in foreign]
        if blocked:
            with pytest.raises(ArgumentError, match=r"an earlier build wrote\. Move it away"):
                replace_all(out, new)
        else:
            replace_all(out, new)
            built = new
        assert {name: each for name, each in contents(out).items() if name != LIST} == {**built, **foreign}
        for name in rng.sample([*names, "notes.txt"], 2):
            if rng.random() < 0.5:
                foreign[name] = b"mine" + rng.randbytes(4)
                (out / name).parent.mkdir(exist_ok=True)
                (out / name).write_bytes(foreign[name])
            else:
                (out / name).unlink(missing_ok=True)
                foreign.pop(name, None)
            built.pop(name, None)


@pytest.mark.skipif(os.name != "posix", reason="makes links")
def test_a_list_from_elsewhere_removes_nothing_outside_and_no_link_is_followed(tmp_path: Path) -> None:
    out, precious = tmp_path / "out", tmp_path / "precious.txt"
    precious.write_text("mine")
    out.mkdir()
    named = [str(precious), "../precious.txt", "link", "linked/precious.txt"]
    (out / "link").symlink_to(precious)
    (out / "linked").symlink_to(tmp_path)
    (out / LIST).write_text("".join(f"{written._line(name, b'mine')}\n" for name in named))
    replace_all(out, {"index.html": b"page"})
    assert precious.read_text() == "mine" and (out / "link").is_symlink()
    with pytest.raises(ArgumentError):
        replace_all(out, {"link": b"page"})
    with pytest.raises(ArgumentError):
        replace_all(out, {"linked/precious.txt": b"page"})
    assert precious.read_text() == "mine"


def test_a_build_that_is_killed_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file it came to: each is whole, and the next build knows them as its own."""
    old, new = ({f"{number}.html": word * 50 for number in range(4)} for word in (b"old", b"new"))
    for last in range(1, 6):
        out, left = tmp_path / str(last), [last]
        replace_all(out, old | {"gone.html": b"old"})

        def write(path: Path, content: bytes, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            path.write_bytes(content)

        with monkeypatch.context() as patched:
            patched.setattr(written, "write_atomically", write)
            with pytest.raises(KeyboardInterrupt):
                replace_all(out, new)
        assert all(each in (old[name], new[name]) for name, each in contents(out).items() if name in old)
        replace_all(out, new)
        assert {name: each for name, each in contents(out).items() if name != LIST} == new


@pytest.mark.parametrize(
    "where", ["the lessons", "around them", "not writable", "foreign index", "foreign lesson", "list"]
)
def test_a_folder_that_cannot_take_them_is_refused_before_a_lesson_runs(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("lessons run")

    monkeypatch.setattr(site, "ProcessPoolExecutor", never)
    out = {"the lessons": share("notebooks"), "around them": share("notebooks").parent}.get(where, tmp_path / "out")
    names = {"foreign index": "index.html", "foreign lesson": "notebooks/00_start_here.ipynb", "list": LIST}
    if where == "not writable":
        out.write_text("a file")
    elif where in names:
        (out / names[where]).parent.mkdir(parents=True)
        (out / names[where]).write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(BrrrError, match=r"DIR is|cannot be written"):
        site.build(out)
    assert contents(tmp_path) == before
