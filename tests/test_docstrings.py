"""Each public name says what it is in one sentence, shows an example, and then lists all that it takes and returns.

The form is numpydoc's (https://numpydoc.readthedocs.io/en/latest/format.html), with the example behind the sentence.
"""

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import brrr
import brrr.networks
import brrr.strassen
import brrr_course

NOT_OURS = {"triton", "tl", "__version__"}
DOCUMENTED = {"brrr.networks": ["best"], "brrr.strassen": ["StrassenMLP", "explain", "fuse", "matmul", "plan"]}
"""What README documents beside the two packages' own names."""

SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "See Also", "Notes", "References")
"""In this order; a class that is made by the package has Attributes, others Parameters."""


def public() -> Iterator[tuple[str, Any]]:
    for module in (brrr, brrr_course):
        names = (name for name in module.__all__ if name not in NOT_OURS)  # Triton's would choose its interpreter
        yield from ((f"{module.__name__}.{name}", getattr(module, name)) for name in names)
    for path, names in DOCUMENTED.items():
        module = getattr(brrr, path.removeprefix("brrr."))
        yield from ((f"{path}.{name}", getattr(module, name)) for name in names)


PUBLIC = dict(public())


def sections(text: str) -> dict[str, str]:
    """What a docstring says under each underlined title; what stands above them under ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section: str) -> dict[str, str]:
    """From each name of a section to what is said of it: `a, b : int` are two, `*args, **kwargs` too."""
    found: dict[str, str] = {}
    for heads, said in re.findall(r"^(\S.*)\n((?:(?: .*)?\n?)*)", section + "\n", flags=re.MULTILINE):
        names = heads.partition(" : ")[0].split(",")
        found |= {name.strip().lstrip("*"): said.strip() for name in names}
    return found


def taken(value: Any) -> set[str]:
    """The names of a function's arguments, of a dataclass's fields, or of those that make a class."""
    if dataclasses.is_dataclass(value):
        return {each.name for each in dataclasses.fields(value)}
    if inspect.isclass(value) and (issubclass(value, Exception) and value.__init__ in PLAIN):
        return set()
    return set(inspect.signature(value).parameters) - {"self"}


PLAIN = {Exception.__init__, *(each.__init__ for each in (ValueError, RuntimeError, LookupError, MemoryError))}
PLAIN |= {ArithmeticError.__init__, brrr.BrrrError.__init__}
"""The errors that only have a message."""


def returns(value: Any) -> bool:
    return not inspect.isclass(value) and inspect.signature(value).return_annotation not in (None, "None")


def wrong(value: Any) -> list[str]:
    """What is not in that form in a public name's docstring."""
    text = inspect.getdoc(value) or ""
    found = sections(text)
    head, *rest = found.pop("").split("\n\n")
    problems = [] if re.fullmatch(r"[A-Z][^\n]*\.", head.rstrip()) else [f"no sentence of one line: {head!r}"]
    if not (inspect.isclass(value) and issubclass(value, Exception)):
        problems += [] if rest and rest[0].startswith(">>> ") else ["no example behind the sentence"]
    problems += [f"no section {title!r} is known" for title in found if title not in SECTIONS]
    if [each for each in SECTIONS if each in found] != list(found):
        problems.append(f"the sections stand as {list(found)}")
    told = entries(found.get("Parameters", "")) | entries(found.get("Attributes", ""))
    problems += [f"{name} is not told" for name in sorted(taken(value) - set(told))]
    problems += [f"{name} does not exist" for name in sorted(set(told) - taken(value))]
    shared = {name for name, said in told.items() if not said}
    problems += [f"nothing is said of {name}" for name in sorted(shared)]
    if returns(value) != ("Returns" in found):
        problems.append("Returns is missing" if returns(value) else "it returns nothing")
    return problems + [f"Raises: {name} is no error" for name in entries(found.get("Raises", "")) if not _error(name)]


def _error(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Z]\w+Error", name))


@pytest.mark.parametrize("path", PUBLIC)
def test_a_public_name_is_documented_in_full(path: str) -> None:
    assert wrong(PUBLIC[path]) == []


def methods(value: Any) -> Iterator[tuple[str, str]]:
    """The public methods and properties that a class defines itself, each with its docstring."""
    for name, each in vars(value).items():
        function = getattr(each, "fget", None) or getattr(each, "func", None) or getattr(each, "__func__", each)
        if not name.startswith("_") and inspect.isfunction(function):
            yield name, inspect.getdoc(function) or ""


@pytest.mark.parametrize("path", [path for path, value in PUBLIC.items() if inspect.isclass(value)])
def test_its_methods_say_in_one_line_what_they_give(path: str) -> None:
    assert unclear(PUBLIC[path]) == {}


def unclear(value: Any) -> dict[str, str]:
    """The methods whose docstring does not begin with one line that ends in a full stop."""
    said = {name: text.partition("\n\n")[0] for name, text in methods(value)}
    return {name: text for name, text in said.items() if not re.fullmatch(r"[^\n]+\.", text)}
