"""Pages of docs/ as their tests read them: blocks of code with what they need, and quoted messages."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
# What ctest takes as "skipped".
SKIPPED = 77

_BLOCK = re.compile(r"(?:^<!-- needs: (?P<needs>[\w, ]+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)


def text(name):
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(page, language):
    """Pairs of a block's text and what it needs: "" or the words of the remark before it."""
    return [(found["text"], found["needs"] or "") for found in _BLOCK.finditer(page)
            if found["language"] == language]


def messages(page):
    """The quoted paragraphs."""
    return [re.sub(r"\n> ?", " ", found[1]).strip() for found in re.finditer(r"^> (.*(?:\n> .*)*)", page, re.M)]
