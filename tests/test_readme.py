"""The README is a short entrance that says what is so, and no page that it names leads nowhere."""

import re
from pathlib import Path

import pytest

from pmafl.cli import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"\]\(([^)#\s]+\.md)", README)))
MOST_LINES = 150
MOST_LINES_OF_A_PLAN = 25


def test_it_is_an_entrance():
    assert len(README.splitlines()) <= MOST_LINES


def test_the_question_is_the_file_that_it_names():
    question = (ROOT / "docs" / "trackers.toml").read_text("utf-8")
    assert len(question.splitlines()) <= MOST_LINES_OF_A_PLAN
    for page in (README, (ROOT / "docs" / "plan.md").read_text("utf-8")):
        assert f"```toml\n{question}```" in page


@pytest.mark.parametrize("page", ["README.md", "docs/use.md"])
def test_every_command_is_in_the_table(page):
    text = (ROOT / page).read_text("utf-8")
    rows = re.findall(r"^\| `pmafl .*", text, flags=re.MULTILINE)
    named = set(re.findall(r"\w+", " ".join(row.split("|")[1] for row in rows)))
    assert {command.__name__ for command in COMMANDS} <= named


@pytest.mark.parametrize("name", ["README.md", *NAMED])
def test_links_lead_somewhere(name):
    page = ROOT / name
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", text)
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []
