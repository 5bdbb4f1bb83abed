"""How old a claim is by git, and the mark that follows from it."""

import os
import random
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from brrr_course.nouns.ledger import ledger_path, past, read_ledger
from tools import history

CLAIM = """
[[claim]]
id = "one.fast"
sentence = "It is fast."
value = "slow / 2"
let.slow = "4.8"
within = [2, inf]
fixed = "2026-11-20"
[[claim.changed]]
date = "{date}"
what = "a bound"
"""


def ages() -> dict[tuple[str, str], list[str]]:
    return {key: lines[0] for key, lines in past(ledger_path().with_name("ages.csv")).items()}


def test_the_mark_is_set_where_rows_are_older_than_the_text() -> None:
    """By the table that the tool made; a clone with its history checks the table, too."""
    by_git: dict[str, set[str]] = {}
    for (name, device), (_, _, older, *_) in ages().items():
        by_git.setdefault(name, set()).update([device] * (older != "0"))
    claims = read_ledger(ledger_path()).claim
    assert {each.id: {*each.after_data} for each in claims} == {each.id: by_git.get(each.id, set()) for each in claims}


def shallow() -> bool:
    """Whether git knows nothing of what was before, or is not there."""
    asked = ["git", "-C", str(history.ROOT), "rev-parse", "--is-shallow-repository"]
    return subprocess.run(asked, capture_output=True, check=False).stdout.strip() != b"false"


@pytest.mark.skipif(shallow(), reason="needs the repository's history")
def test_the_table_names_the_commit_since_which_a_claim_stands() -> None:
    """Of some claims: that commit's ledger has the text of today, and the commit before it has not."""
    today = {each["id"]: each for each in tomllib.loads(ledger_path().read_text(encoding="utf-8"))["claim"]}
    since = {name: commit for (name, _), (commit, *_) in ages().items()}
    checked = 0
    for name in random.Random(7).sample(sorted(since), 40):
        if checked == 2 or not history.git("ls-tree", "--name-only", since[name], "data/claims.toml"):
            continue
        now = text(since[name], name)
        if now != {*history.parts(today[name])}:
            continue  # it was in code before, or a change was told later
        assert now != text(f"{since[name]}^", name), name
        checked += 1
    assert checked == 2


def text(commit: str, name: str) -> set[str]:
    """What a claim said then, and what decided it."""
    ledger = history.git("show", f"{commit}:data/claims.toml")
    block = re.search(rf'^\[\[claim\]\]\nid = "{re.escape(name)}"\n(.|\n)*?(?=^\[\[claim\]\]|\Z)', ledger, re.MULTILINE)
    return {*history.parts(tomllib.loads(block[0])["claim"][0])} if block else set()


@pytest.mark.parametrize(
    ("old", "new", "second"),
    [
        ("", "", "20261120-120000"),  # as it was
        ("It is fast.", "It is very fast.", "20261121-120000"),
        ("[2, inf]", "[3, inf]", "20261121-120000"),
        ('"4.8"', '"4.9"', "20261121-120000"),
        ('let.slow = "4.8"', 'let.slow = "4.8"\nlet.shown = "1"', "20261120-120000"),  # decides nothing
        ('fixed = "2026-11-20"', 'fixed = "2026-11-20"\nafter_data = ["h100"]', "20261120-120000"),
        ("a bound", "another bound", "20261121-120000"),
    ],
)
def test_a_claim_is_as_old_as_the_newest_of_its_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, second: str
) -> None:
    told = CLAIM.format(date="2026-11-21")
    ledger = repository(tmp_path, monkeypatch, told, told.replace(old, new))
    assert history.fixed()["one.fast"][1] == second
    ledger.write_text(told.replace("[2, inf]", "[4, inf]"))
    with pytest.raises(SystemExit, match=r"one\.fast\. Commit them"):
        history.fixed()


def test_a_change_that_is_told_later_than_it_was_made_is_no_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CLAIM.partition("[[claim.changed]]")[0]
    repository(tmp_path, monkeypatch, before, CLAIM.format(date="2026-11-20"))
    assert history.fixed()["one.fast"][1] == "20261120-120000"


def repository(folder: Path, monkeypatch: pytest.MonkeyPatch, *texts: str) -> Path:
    """One whose ledger had these texts, a day each from 20 Nov 2026 on at noon."""
    (folder / "data").mkdir()
    ledger = folder / "data" / "claims.toml"
    run = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@a.example", "-c", "commit.gpgsign=false"]
    subprocess.run([*run, "init", "-q"], check=True)
    for day, told in enumerate(texts, 20):
        ledger.write_text(told, encoding="utf-8")
        when = {**os.environ, "GIT_COMMITTER_DATE": f"2026-11-{day}T12:00:00+0000"}
        subprocess.run([*run, "add", "-A"], check=True)
        subprocess.run([*run, "commit", "-q", "--allow-empty", "-m", "a"], check=True, env=when)
    monkeypatch.setattr(history, "ROOT", folder)
    monkeypatch.setattr(history, "LEDGER", ledger)
    return ledger


def test_the_mark_is_written_into_the_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = repository(tmp_path, monkeypatch, CLAIM.format(date="2026-11-20"))
    for older, marked in ((1, ["h100"]), (0, [])):
        history.mark([["one.fast", "h100", "abc", "20261120-120000", older, 2, ""]])
        (claim,) = tomllib.loads(ledger.read_text(encoding="utf-8"))["claim"]
        assert claim.get("after_data", []) == marked
        assert claim["within"][0] == 2 and claim["changed"][0]["what"] == "a bound"
