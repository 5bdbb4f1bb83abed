"""The lists of packages agree: both pyproject.toml, constraints.txt, environment.yml, .binder and what is installed."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

import dev

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")

# The name on conda-forge, where it is another; None where environment.yml leaves the package out (why: beside it).
CONDA_NAMES: dict[str, str | None] = {
    "torch": "pytorch",
    "jupyter-client": "jupyter_client",
    "triton": None,  # comes with pytorch-gpu, under Linux
    "dask": "dask-core",  # what conda-forge calls dask brings pandas, bokeh and more
    # the rest is for those who change the course
    **dict.fromkeys(("axe-playwright-python", "httpx", "import-linter", "jupytext", "mypy", "packaging", "PyYAML")),
    **dict.fromkeys(("playwright", "ruff", "types-psutil", "types-tqdm")),
}
CONDA_ONLY = {"python", "pip", "cuda-version", "cuda-nvcc", "cxx-compiler", "pytorch-gpu"}


def project(folder: Path = ROOT) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def requirements(*extras: str) -> list[Requirement]:
    """The requirements of the whole course's installation (`base`) and of extras, of both distributions together."""
    small, course = project(), project(ROOT / "brrr_course")
    of, own = small["optional-dependencies"], course["optional-dependencies"]
    lists = {"base": [*small["dependencies"], *of["plot"], *course["dependencies"]], **own, **of}
    found = [Requirement(text) for extra in extras for text in lists[extra]]
    return [one for one in found if one.name != small["name"]]


def lower_bound(specifiers: SpecifierSet) -> str:
    return next(one.version for one in specifiers if one.operator == ">=")


def pins(text: str) -> dict[str, str]:
    """Package -> version of a constraints file, every line of which must be an exact pin."""
    found: dict[str, str] = {}
    for line in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        name, version = re.fullmatch(r"([A-Za-z0-9._-]+)==([0-9][0-9a-z.]*)", line).groups()  # type: ignore[union-attr]
        assert canonicalize_name(name) not in found, f"{name} is pinned twice"
        found[canonicalize_name(name)] = version
    return found


def conda_bounds(text: str) -> dict[str, str]:
    """Package -> version specification of an environment.yml, without its pip part."""
    entries = [entry for entry in yaml.safe_load(text)["dependencies"] if isinstance(entry, str)]
    return {name: bound.strip() for name, _, bound in (entry.partition(" ") for entry in entries)}


def mismatches(environment: str) -> list[str]:
    """What environment.yml (its text) says otherwise than pyproject.toml."""
    bounds, wrong, named = conda_bounds(environment), [], set()
    for requirement in requirements("base", "cuda", "class", "dev"):
        name = CONDA_NAMES.get(requirement.name, requirement.name)
        named.add(name)
        expected = f">={lower_bound(requirement.specifier)}"
        if name is not None and bounds.get(name) != expected:
            wrong.append(f"{name}: {bounds.get(name)}, expected {expected}")
    wrong += [f"{name}: lacking" for name in CONDA_ONLY - bounds.keys()]
    wrong += [f"{name}: not in pyproject.toml" for name in bounds if name not in named | CONDA_ONLY]
    if not bounds.get("python", "").startswith(project()["requires-python"]):
        wrong.append(f"python: {bounds.get('python')}")
    return wrong


def test_environment_agrees_with_pyproject() -> None:
    text = (ROOT / "environment.yml").read_text("utf-8")
    assert mismatches(text) == []
    assert conda_bounds(text)["pytorch-gpu"] == conda_bounds(text)["pytorch"]


def test_environment_admits_what_is_installed(installed: set[str]) -> None:
    """No solver has seen the file: what it asks for is at least what the tests run with."""
    pip_names = {conda: name for name, conda in CONDA_NAMES.items() if conda}
    bounds = conda_bounds((ROOT / "environment.yml").read_text("utf-8"))
    here = {name: canonicalize_name(pip_names.get(name, name)) for name in bounds}
    there = {name: pip for name, pip in here.items() if pip in installed}
    refused = [name for name, pip in there.items() if Version(metadata.version(pip)) not in SpecifierSet(bounds[name])]
    assert len(there) > 25 and refused == []
    assert ".".join(map(str, sys.version_info[:3])) in SpecifierSet(bounds["python"])


def test_constraints_pin_what_pyproject_names() -> None:
    pinned = pins((ROOT / "constraints.txt").read_text("utf-8"))
    assert pinned["torch"] == "2.13.0"
    for requirement in requirements("base", "dev", "cuda", "class"):
        assert Version(pinned[canonicalize_name(requirement.name)]) in requirement.specifier, requirement


def test_hashes_hold_every_pin() -> None:
    """All files of a release, not one system's: torch has them for three systems and three Pythons at least."""
    pinned, known = pins((ROOT / "constraints.txt").read_text("utf-8")), dev.known_hashes()
    assert known.keys() == {f"{name}=={version}" for name, version in pinned.items()}
    hashes = [each for one in known.values() for each in one]
    assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", each) for each in hashes)
    assert all(known.values()) and len(hashes) == len(set(hashes)) and len(known["torch==2.13.0"]) == 32
    assert dev.locked_line("PyYAML", "6.0.3").startswith("PyYAML==6.0.3 --hash")
    assert dev.locked_line("torch", "2.13.0+cpu").startswith("torch==2.13.0+cpu --hash")
    with pytest.raises(KeyError, match=r"torch==2\.0"):
        dev.locked_line("torch", "2.0")


def closure(names: set[str]) -> set[str]:
    """All installed packages that `names` need here, themselves included; brrr's extras are given as names."""
    seen: set[str] = set()
    waiting = {(canonicalize_name(name), "") for name in names}
    while waiting:
        name, extra = waiting.pop()
        seen.add(name)
        for text in metadata.requires(name) or []:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                found = {(canonicalize_name(needed.name), further) for further in ("", *needed.extras)}
                waiting |= {one for one in found if one[0] not in seen or one[1]}
        waiting -= {(name, extra)}
    return seen


@pytest.fixture(scope="module")
def installed() -> set[str]:
    try:
        return closure({one.name for one in requirements("base", "dev")})
    except metadata.PackageNotFoundError as error:
        pytest.skip(f"{error.name} is not installed here, so that this is no environment that dev.py made")


def test_everything_installed_is_pinned(installed: set[str]) -> None:
    pinned = pins((ROOT / "constraints.txt").read_text("utf-8"))
    assert installed - set(pinned) == set()


def test_pins_admit_every_python(installed: set[str]) -> None:
    """A pin that wants Python 3.11.5, say, would stop a Debian 12, which has 3.11.2."""
    pinned = pins((ROOT / "constraints.txt").read_text("utf-8"))
    refused = []
    for name in installed & set(pinned):
        package = metadata.metadata(name)
        wanted = SpecifierSet(package.get("Requires-Python", ""))
        same = Version(package["Version"]).public == pinned[name]
        refused += [f"{name} {pinned[name]}: {wanted}" for one in PYTHONS if same and one not in wanted]
    assert refused == []


def test_binder_has_a_python_that_is_pinned_for() -> None:
    runtime = (ROOT / ".binder" / "runtime.txt").read_text("utf-8").strip()
    assert runtime in ("python-3.11", "python-3.12", "python-3.13")
