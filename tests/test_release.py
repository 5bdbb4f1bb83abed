"""What a release needs: names that are ours, one version, pages for the index alone, workflows that may do little."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import brrr
from brrr_course.nouns.places import REPOSITORY

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = {
    folder: tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    for folder in (ROOT, ROOT / "brrr_course")
}
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FOREIGN = re.compile(r"pip3? install\b[^\n`]*?[ '\"](?:-U +)?brrr(?![\w./-])(?!\s*&&)")
"""The name `brrr` on the package index is another project's."""


def said() -> list[Path]:
    ends = {".py", ".md", ".ipynb", ".yml", ".yaml", ".toml", ".html", ".js"}
    tops = ("brrr", "brrr_course", "tools", "docs", "notebooks", "deploy", ".github", ".binder")
    below = [path for top in tops for path in (ROOT / top).rglob("*") if path.suffix in ends]
    return [path for path in (*below, *ROOT.glob("*.*")) if path.is_file() and path.suffix in ends]


def test_nothing_tells_anybody_to_install_a_foreign_package() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in said()}
    assert len(texts) > 300
    assert [name for name, text in texts.items() if FOREIGN.search(text)] == []


def test_there_is_one_version() -> None:
    small, course = PROJECTS.values()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["version"]
    assert {small["version"], course["version"], citation} == {brrr.__version__}
    needed = [*course["dependencies"], *course["optional-dependencies"]["cuda"]]
    ours = [each for each in needed if each.startswith(small["name"])]
    assert len(ours) == 2 and all(each.endswith(f"=={brrr.__version__}") for each in ours)
    assert f"\n## {brrr.__version__}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def too_long(changelog: str) -> list[str]:
    """What the newest section says in more than one line of 160 characters a change; tables are let be."""
    newest = changelog.split("\n## ")[1].split("\n")[1:]
    return [line for line in newest if re.match(r"\s+\S", line) or (line.startswith("- ") and len(line) > 160)]


def test_a_change_is_one_line() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert text.count("\n- ") > 20 and too_long(text) == []


@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("awk")), reason="the release's job runs on Linux")
def test_a_release_says_what_is_new_in_short(tmp_path: Path) -> None:
    """GitHub makes each end of a line a new line, and knows no address for a link into this repository."""
    steps = workflow(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["build"]["steps"]
    (step,) = (each["run"] for each in steps if "CHANGELOG.md" in each.get("run", ""))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    heading = next(line for line in changelog.split("\n") if line.startswith(f"## {brrr.__version__}"))

    def told(tag: str, mark: str = "(2026-11-28)") -> int:
        dated = changelog.replace(heading, f"## {brrr.__version__} {mark}", 1)
        (tmp_path / "CHANGELOG.md").write_text(dated, "utf-8")
        call = ["bash", "-e", "-c", step]
        return subprocess.run(call, cwd=tmp_path, env={**os.environ, "GITHUB_REF_NAME": tag}, check=False).returncode

    assert told(f"v{brrr.__version__}", "*(not released yet)*") != 0, "a tag before the section has its date"
    assert told(f"v{brrr.__version__}") == 0
    lines = (tmp_path / "notes.md").read_text("utf-8").strip().split("\n")
    assert lines[0] == "**New, in short.**" and "**Moved, in short.**" in lines and len(lines) <= 25
    assert all(line.startswith(("**", "- ")) for line in lines if line) and "](" not in "".join(lines)
    assert told("v0.0.0") != 0, "a version without a section"


@pytest.mark.parametrize("folder", PROJECTS, ids=lambda folder: folder.name)
def test_a_page_for_the_index_stands_alone(folder: Path) -> None:
    text = (folder / PROJECTS[folder]["readme"]).read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert all(link.startswith("https://") for link in links) and "![" not in text and "git clone" not in text
    assert PROJECTS[folder]["name"] in text
    assert all(hasattr(brrr, name) for name in re.findall(r"brrr\.([a-z_]+)\(", text))


def test_the_repository_stands_in_one_place() -> None:
    """The pages that name it are held by notebooks/test_at_work.py."""
    for project in PROJECTS.values():
        assert REPOSITORY in project.get("urls", {"": ""}).values(), "the one place: brrr_course/nouns/places.py"


def pins(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([\w-]+)==(\S+)", (ROOT / ".ci" / name).read_text("utf-8"), re.MULTILINE))


def test_the_tools_that_build_are_held_to_hashes() -> None:
    for name in ("wheels", "advisories"):
        assert pins(f"{name}.in").items() <= pins(f"{name}.txt").items()
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8")
    (publisher,) = set(re.findall(r"uses: pypa/.+ # (v.+)", text))
    assert publisher in (ROOT / ".ci" / "wheels.in").read_text("utf-8"), "other tools, which refuse what ours take"
    assert f"hatchling=={pins('wheels.txt')['hatchling']}\n" in (ROOT / "constraints.txt").read_text("utf-8")
    script = (ROOT / ".ci" / "wheels").read_text("utf-8")
    assert len(re.findall("pip.? install ", script)) == 1 and "--require-hashes" in script
    assert len(re.findall("-m build ", script)) == len(re.findall("-m build --no-isolation ", script)) == 2


@pytest.mark.parametrize("name", ["release", "tests"])
def test_both_workflows_build_with_the_same_script(name: str) -> None:
    """What a pull request builds and checks is what a tag publishes, on the Python that the publisher has."""
    jobs = workflow(ROOT / ".github" / "workflows" / f"{name}.yml")["jobs"].values()
    (steps,) = (job["steps"] for job in jobs if any(step.get("run") == "bash .ci/wheels" for step in job["steps"]))
    assert any(step.get("run") == "bash .ci/installed" for job in jobs for step in job["steps"])
    assert [step["with"]["python-version"] for step in steps if "setup-python" in step.get("uses", "")] == ["3.13"]
    assert not any("pip" in step.get("run", "") for step in steps)


def workflow(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text("utf-8")))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_no_more_than_it_must(path: Path) -> None:
    """Each action is named by its commit, with its version beside it; nothing is permitted but what a job lists."""
    text, told = path.read_text("utf-8"), workflow(path)
    used = re.findall(r"uses: (.+)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used)
    assert told["permissions"] == {}
    for job in told["jobs"].values():
        writes = {name for name, may in job["permissions"].items() if may == "write"}
        runs = [step["run"] for step in job["steps"] if not step.get("run", "gh release ").startswith("gh release ")]
        assert writes <= {"id-token", "pages", "contents"} and not (writes and runs), "who may write runs nothing of us"
    assert "persist-credentials: false" in text or "checkout" not in text
    every = {each for path in WORKFLOWS for each in re.findall(r"uses: (\S+)", path.read_text("utf-8"))}
    assert len({each.partition("@")[0] for each in every}) == len(every) >= 7, "each action has one version"
