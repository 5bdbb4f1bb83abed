"""What the pages are made of: pieces that keep texts, exports that leave a view as it was, the same bytes each time."""

import gzip
import json
import re
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from opened import made

import brrr_course
from brrr.__main__ import main
from brrr.core.errors import ArgumentError
from brrr.core.files import share
from brrr.drawing import style
from brrr_course import drawing
from brrr_course.site.build import build
from brrr_course.site.frame import plain, unpacked
from brrr_course.site.index import index_page
from brrr_course.site.page import lesson_page
from brrr_course.site.reference import reference
from brrr_course.site.vector import Pieces
from brrr_course.site.views import view
from brrr_course.view.display import Shown


def test_rounding_touches_geometry_and_no_text():
    figure, pieces = style.figure(), Pieces()
    figure.text(1.23456e-1, 0.5, "4.2449 µs, at 1.23456")
    pieces.draw(figure)
    (text,) = [piece for piece in pieces.all if "<text" in piece]
    assert ">4.2449 µs, at 1.23456<" in text
    assert 'x="67.6"' in text  # 0.123456 of 760 CSS pixels, in points


def test_an_export_leaves_a_drawing_as_it_was():
    drawn = drawing("call-life", source="recorded:h200")
    settings = dict(drawn.settings)
    list(drawn.everywhere())
    assert drawn.settings == settings


def test_a_view_without_an_exporter_ends_the_build():
    class Unknown(Shown):
        pass

    with pytest.raises(NotImplementedError, match="no page shows an Unknown"):
        view(Unknown(None), Pieces())


def test_a_page_is_the_same_when_made_again(monkeypatch):
    monkeypatch.setenv("BRRR_SOURCE", "recorded:h200")
    first = made("00")
    path = Path(__file__).resolve().parents[2] / "notebooks" / f"{first.name}.ipynb"
    assert lesson_page(path, "", "").html == first.page


def test_a_page_is_one_file_that_asks_for_nothing():
    page = made("00").page
    assert all(f"{name} 'none'" in page for name in ("default-src", "base-uri", "form-action"))
    assert not re.search(r'(?:src|href)="?https?:', page.partition("<main ")[0])
    assert len(page) < 700_000


@pytest.mark.usefixtures("cells_here")
def test_the_reference_keeps_nothing_and_leaves_out_what_is_another_s():
    page = reference()["brrr_course"][1]
    assert 'id="explore"' in page and 'id="triton"' not in page and 'id="tl"' not in page
    assert not {"triton", "tl"} & vars(brrr_course).keys(), "a lesson after it asks for the interpreter anew"


@pytest.mark.usefixtures("cells_here")  # the reference has all names of the course, Triton's too
def test_own_recordings_stand_beside_the_course_s(tmp_path, synthetic_root, monkeypatch):
    notebook = {"metadata": {}, "cells": [
        {"cell_type": "code", "metadata": {}, "source": "from brrr_course import explore\nexplore('matmul')"},
        {"cell_type": "code", "metadata": {}, "source": "explore('matmul', source='recorded:h200')"},
    ]}  # fmt: skip
    (tmp_path / "notebooks").mkdir()
    for name, content in (("00_own", notebook), ("99_other", {"metadata": {}, "cells": []})):
        (tmp_path / "notebooks" / f"{name}.ipynb").write_text(json.dumps(content), encoding="utf-8")
    own = tmp_path / "recordings"
    shutil.copytree(synthetic_root / "cpu", own / "mine")
    monkeypatch.setattr(
        "brrr_course.site.build.share", lambda name: tmp_path / name if name == "notebooks" else share(name)
    )
    said: list[str] = []
    build(tmp_path / "out", device="mine", recordings=own, slides=True, say=said.append)
    assert said == ["1 of 2: 00_own", "2 of 2: 99_other"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"00_own.html", "00_own.slides.html", "index.html", "glossary.html", "timer.html", "notebooks"} <= written
    assert "timing-without-synchronize.html" not in written  # its lesson is not here
    for name, beside in (("00_own", "00_own.slides"), ("00_own.slides", "00_own"), ("index", "00_own")):
        assert f"{beside}.html" in (tmp_path / "out" / f"{name}.html").read_text("utf-8")
    data = unpacked((tmp_path / "out" / "00_own.html").read_text(encoding="utf-8"))
    index = (tmp_path / "out" / "index.html").read_text("utf-8")
    (tmp_path / "out" / "99_other.html").unlink()
    build(tmp_path / "out", ["99"], device="mine", recordings=own)
    assert written <= {path.name for path in (tmp_path / "out").iterdir()}, "the other lesson's pages stay"
    assert (tmp_path / "out" / "index.html").read_text("utf-8") == index
    with pytest.raises(ArgumentError, match="LESSON"):
        build(tmp_path / "out", ["98"], device="mine", recordings=own)
    badges = [each["badge"] for each in data["view"]]
    assert "H200" not in badges[0] and "H200" in badges[1]


DRAWN = share("notebooks").parent / "brrr_course" / "view" / "drawn"


@pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm")
def test_what_is_committed_is_what_is_built_of_the_sources(tmp_path):
    drawn = tmp_path / "brrr_course" / "view" / "drawn"
    shutil.copytree(DRAWN, drawn)
    shutil.copytree(share("data") / "wgsl", tmp_path / "data" / "wgsl")
    shutil.rmtree(drawn / "built")
    if not (drawn / "node_modules").is_dir():
        subprocess.run(["npm", "ci", "--no-audit", "--no-fund"], cwd=drawn, check=True)
    subprocess.run(["node", "build.mjs"], cwd=drawn, check=True)
    for committed in (DRAWN / "built").iterdir():
        assert (drawn / "built" / committed.name).read_bytes() == committed.read_bytes(), committed.name


def test_what_draws_is_small():
    assert len(gzip.compress((DRAWN / "built" / "scene.bundle.js").read_bytes())) <= 45_000


def test_a_device_that_was_not_recorded_is_refused(tmp_path, capsys):
    with pytest.raises(ArgumentError, match="--device"):
        build(tmp_path, device="nothing")
    assert main(["site", str(tmp_path), "--device", "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.browser
def test_a_page_that_was_read_opens_without_a_network_in_a_browser(browser, tmp_path):
    site = share("notebooks").parent / "brrr_course" / "site"
    (tmp_path / "index.html").write_text(index_page([], (), {}), encoding="utf-8")
    (tmp_path / "lesson.html").write_text(plain("lesson", "A lesson", "<p>It is here.</p>"), encoding="utf-8")
    for name in ("offline.js", "manifest.webmanifest", "icon.svg"):
        shutil.copy(site / name, tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, browser.new_context() as context:
        Thread(target=server.serve_forever, daemon=True).start()
        page, at = context.new_page(), f"http://127.0.0.1:{server.server_address[1]}"
        page.goto(f"{at}/index.html")
        page.evaluate("navigator.serviceWorker.ready.then(found => found.active.state)")
        page.wait_for_function("navigator.serviceWorker.controller")
        page.goto(f"{at}/lesson.html")
        server.shutdown()
        server.server_close()
        page.reload()
        assert "It is here." in page.locator("main").inner_text()
        with pytest.raises(Exception, match="ERR_"):
            page.goto(f"{at}/never-read.html")
