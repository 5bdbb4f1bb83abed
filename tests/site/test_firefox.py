"""The pages in another browser: Debian's Firefox draws a lesson from its file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from opened import made
from PIL import Image

FIREFOX = next((path for name in ("firefox-esr", "firefox") if (path := shutil.which(name))), None)
BLUE = (0, 114, 178)
"""Of the style's colours, the one that the lesson's first drawing has most of; without the script nothing is drawn."""


@pytest.mark.browser
@pytest.mark.skipif(FIREFOX is None, reason="no Firefox here: Debian's package is firefox-esr")
def test_firefox_draws_a_page(tmp_path: Path) -> None:
    page, picture = tmp_path / "01.html", tmp_path / "01.png"
    page.write_text(made("01").page, encoding="utf-8")
    command = [str(FIREFOX), "--headless", "--profile", str(tmp_path), "--window-size=1000,1400"]
    subprocess.run(
        [*command, "--screenshot", str(picture), page.as_uri()], check=True, timeout=120, capture_output=True
    )
    drawn = Image.open(picture).convert("RGB")
    wide, high = drawn.size
    blue = sum(drawn.getpixel((x, y)) == BLUE for x in range(0, wide, 2) for y in range(0, high, 2))
    assert blue > 500, "the drawing of host and GPU is not there"
