"""A warm kernel has large libraries loaded, and is else as bare as any: no names, nothing of the course."""

import pytest
from page import Window

pytestmark = pytest.mark.browser

LOADED = "import sys\nloaded = {name.partition('.')[0] for name in sys.modules}"
BARE = "assert 'torch' in loaded and not loaded & {'brrr', 'brrr_course', 'triton'} and 'torch' not in globals()"


def test_a_kernel_is_warm_and_bare(window: Window) -> None:
    with window.ran("warm.ipynb", LOADED, BARE):
        pass


def test_a_launcher_that_comes_late_hides_no_notebook(window: Window) -> None:
    window.page.evaluate("() => setTimeout(() => window.jupyterapp.commands.execute('launcher:create'), 400)")
    page = window.open(window.lab.write("late.ipynb", "1 + 1"))
    window.command("launcher:create")
    page.run_all()
    assert page.errors == []
    page.close()
