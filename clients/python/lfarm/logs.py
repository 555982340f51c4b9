"""Log lines about graphs of torch.compile, for which LFARM_LOGS says `dynamo`.

The library reads the rest of LFARM_LOGS and complains of components that nobody knows.
"""

from __future__ import annotations

import logging
import os
from typing import Optional

DYNAMO = logging.getLogger("lfarm.dynamo")

_LEVELS = {"+": logging.DEBUG, "": logging.INFO, "-": logging.ERROR}


def level_of(text: str, component: str) -> Optional[int]:
    """The level that a text such as "+session,dynamo,-farm" gives a component; None: it says nothing."""
    found: dict[str, int] = {}
    for entry in text.split(","):
        name = entry.strip()
        sign = name[:1] if name[:1] in ("+", "-") else ""
        found[name[len(sign) :]] = _LEVELS[sign]
    return found.get(component, found.get("all"))


def set_up(text: str) -> None:
    """Shows lines as the text says, on standard error where the program's logging has no handler."""
    level = level_of(text, "dynamo")
    if level is None:
        return
    DYNAMO.setLevel(level)
    if not DYNAMO.hasHandlers():
        handler = logging.StreamHandler()
        line = "%(asctime)s lfarm[%(process)d] %(levelname)s %(message)s"
        handler.setFormatter(logging.Formatter(line))
        DYNAMO.addHandler(handler)


set_up(os.environ.get("LFARM_LOGS", ""))
