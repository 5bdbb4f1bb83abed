"""Every view of the lessons of the core, at every place of its sliders, says and draws what Python does."""

from __future__ import annotations

import pytest
from sweeping import lessons, swept

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("number", lessons(engineers=False))
def test_every_view_is_pythons(opened, number):
    page = opened(number)
    assert swept(page) > 0 or not page.made.views
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 900
