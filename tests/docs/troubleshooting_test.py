"""Messages of docs/troubleshooting.md are those of the sources: if this fails, who looks for a message
does not find it there."""

import re
import unittest

import documents

# What stands for what differs: words in capitals, with the quotes that Python's repr() puts around some.
PLACE = re.compile(r"\b(?:[A-Z]{2,}|N)\b(?!_)")
# Capitals that are part of a message.
LITERAL = {"LFARM_CC", "LFARM_LIBRARY", "TENANT", "ROLE"}
SHORTEST = 8
# A piece may be put together from this many literals.
LITERALS_MAX = 4


def literals(source):
    """The texts of a C++ or Python file with \\0 around those that other things separate."""
    found, last = "\0", 0
    for match in re.finditer(r'"((?:[^"\\\n]|\\.)*)"', source):
        between = source[last:match.start()].strip()
        found += ("" if between in ("", "f") else "\0") + match[1].replace('\\"', '"')
        last = match.end()
    return re.sub(r"\{[^{}\0]*\}", "\0", found) + "\0"


def pieces(message):
    """What is left of a message between its places."""
    parts, last = [], 0
    for match in PLACE.finditer(message):
        word = re.match(r"\w+", message[match.start():])[0]
        if word in LITERAL:
            continue
        parts.append(message[last:match.start()])
        last = match.end()
    parts.append(message[last:])
    return [part.strip(" :") for part in parts if len(part.strip(" :")) >= SHORTEST]


def is_said(piece, texts, literals_left=LITERALS_MAX):
    """Whether the texts have the piece, or it is put together from ends and beginnings of literals."""
    begin = "" if literals_left == LITERALS_MAX else "\0"
    if begin + piece in texts:
        return True
    if literals_left == 1:
        return False
    return any(begin + piece[:end] + "\0" in texts and is_said(piece[end:], texts, literals_left - 1)
               for end in range(len(piece) - 1, 0, -1))


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        found = []
        for folder in ("clients", "common", "coordinator", "worker"):
            for file in (documents.ROOT / folder).rglob("*"):
                if file.suffix in (".cc", ".h", ".py"):
                    found.append(literals(file.read_text(encoding="utf-8")))
        cls.texts = "\0".join(found)

    def test_every_message_is_printed_by_something(self):
        said = documents.messages(documents.text("troubleshooting.md"))
        self.assertGreater(len(said), 25)
        for message in said:
            with self.subTest(message):
                for piece in pieces(message):
                    self.assertTrue(is_said(piece, self.texts), f"nobody says: {piece}")

    def test_a_message_that_nobody_prints_is_noticed(self):
        self.assertFalse(is_said("the farm has gone for a walk; wait until it is back", self.texts))
        self.assertFalse(is_said("no plan arrived within", self.texts))
        self.assertTrue(is_said("no plan came within", self.texts))

    def test_places_are_found(self):
        self.assertEqual(pieces("no plan came within N ms; the farm"), ["no plan came within", "ms; the farm"])
        self.assertEqual(literals('cat("one ", x,\n "two "\n "three")'), "\0\0one \0two three\0")


if __name__ == "__main__":
    unittest.main()
