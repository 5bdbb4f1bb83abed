"""A figure whose sliders stand where nothing was recorded says so, in place of empty axes."""

from __future__ import annotations

from brrr.course.view import words
from brrr.course.view.explorer import explore


def test_settings_without_a_recorded_point_say_so_in_the_figure() -> None:
    e = explore("repeat", at={"elements": 2**24, "dtype": "bfloat16"}, source="recorded:h200")
    assert words.in_figure(e.scene).startswith("Nothing was recorded of these lines at")
    e.scene.on = []
    assert words.in_figure(e.scene) == "", "lines that are switched off are not missing"


def test_settings_with_points_have_no_message() -> None:
    e = explore("repeat", at={"elements": 2**26, "dtype": "float32"}, source="recorded:h200")
    assert words.in_figure(e.scene) == ""
