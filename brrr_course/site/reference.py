"""The reference: every public name with its signature and its docstring, as pdoc reads them, a page for each module."""

import re
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest.mock import patch
from warnings import catch_warnings

from brrr_course.site.frame import plain
from brrr_course.site.text import contents

_PLACE, _LINK = re.compile(r'\bid="([^"]+)"'), re.compile(r'href="([\w.]*)#([\w.]+)"')
MODULES = ("brrr", "brrr.networks", "brrr.strassen", "brrr_course")


def reference() -> dict[str, tuple[str, str]]:
    """The title and the page of each public module, by the pages' names.

    >>> list(reference())
    ['brrr', 'brrr.networks', 'brrr.strassen', 'brrr_course']
    """
    from pdoc import doc, render

    own = Path(__file__).with_name("pdoc")
    render.configure(docformat="numpy", search=False, show_source=False, template_directory=own)
    modules = {}
    with catch_warnings(action="ignore"), ExitStack() as loaded:  # of Triton, where there is none
        for name in MODULES:
            module = import_module(name)
            names = {each: getattr(module, each) for each in module.__all__}  # loaded when they are first used
            loaded.enter_context(patch.dict(vars(module), names))  # not each is kept, and pdoc looks here
            modules[name] = doc.Module(module)
        pages = {name: _page(name, render.html_module(module, modules)) for name, module in modules.items()}
    places = {f"{name}.html": {*_PLACE.findall(page)} for name, page in pages.items()}
    pages = {name: _LINK.sub(partial(_led, places, f"{name}.html"), page) for name, page in pages.items()}
    return {name: (f"Reference: {name}", page) for name, page in pages.items()}


def _led(places: Mapping[str, set[str]], own: str, link: re.Match[str]) -> str:
    """A link within the reference: a name that is told with its class alone leads to the class."""
    page, place = link.groups()
    while place not in places.get(page or own, {place}) and "." in place:
        place = place.rpartition(".")[0]
    return f'href="{page}#{place}"'


def _page(name: str, html: str) -> str:
    """What pdoc made, with the links of this site, and headings that follow each other."""
    html = re.sub(r'(?<=href=")(?:\.\.?/)*([\w/]+)(?=\.html)', lambda found: found[1].replace("/", "."), html)
    html = re.sub(r"(?:<code>)?docs/(\w+)\.md(?:</code>)?", r'<a href="\1.html">\1</a>', html)
    html = re.sub(r"<h6[^>]*>(.*?)</h6>", r"<p><b>\1</b></p>", html)
    return plain(name, f"Reference: {name}", html.replace("</h1>", f"</h1>{contents(html)}", 1))
