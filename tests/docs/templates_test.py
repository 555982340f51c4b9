"""Commands and options in the pages for newcomers and in the templates for continuous integration exist. If
this fails, a copied line is refused. LFARM_BIN has the programs."""

import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

import documents

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(documents.SKIPPED)

TEMPLATES = [documents.DOCS / "ci" / name for name in ("github-actions.yml", "gitlab-ci.yml")]
PAGES = ["../README.md", "../clients/python/README.md", "tutorial.md", "troubleshooting.md", "support.md", "python.md",
         "machines.md", "measuring.md", "threat-model.md"]
BIN = pathlib.Path(os.environ["LFARM_BIN"])


@functools.cache
def help_of(program, command):
    done = subprocess.run([BIN / program, *command, "--help"], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


@functools.cache
def commands_below(program, command):
    found = re.search(r"^(?:Subcommands|Commands):\n(.*?)(?:\n\n|\Z)", help_of(program, command) or "", re.M | re.S)
    return set(re.findall(r"^  ([a-z]+)\b", found[1], re.M)) if found else set()


def scripts_of(template):
    """The lines of shell in a template."""
    def walk(value):
        if isinstance(value, dict):
            for name, each in value.items():
                if name == "run":
                    yield each
                elif name == "script":
                    yield from each
                else:
                    yield from walk(each)
        elif isinstance(value, list):
            for each in value:
                yield from walk(each)

    return [line for text in walk(template) for line in text.splitlines()]


def calls(line):
    """The words of each lfarm program that a line runs."""
    for part in re.split(r"[;|&]|\$\(", line):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:  # cut within quotes
            words = part.split()
        if words and words[0] in ("lfarm", "lfarm-worker", "lfarm-coordinator"):
            yield [word.rstrip(")") for word in words]


class Commands(unittest.TestCase):
    def assert_exists(self, words):
        program, rest, command = words[0], words[1:], ()
        while rest and rest[0] in commands_below(program, command):
            command += (rest.pop(0),)
        text = help_of(program, command)
        self.assertTrue(command or program != "lfarm" or all(word.startswith("-") for word in rest),
                        f"no command: {words}")
        options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", text)) | {"--help"}
        used = {word.split("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        self.assertLessEqual(used, options, words)

    def test_of_templates(self):
        for path in TEMPLATES:
            template = yaml.safe_load(path.read_text(encoding="utf-8"))
            found = [words for line in scripts_of(template) for words in calls(line)]
            self.assertEqual([words[1] for words in found], ["check", "report"], path)
            for words in found:
                with self.subTest(path.name, words=words):
                    self.assert_exists(words)

    def test_of_pages(self):
        count = 0
        for page in PAGES:
            text = documents.text(page)
            lines = [line for block, _ in documents.blocks(text, "sh") for line in block.splitlines()]
            lines += [code.replace("\n", " ") for code in re.findall(r"`(lfarm[ -][^`]*)`", text)]
            for words in (words for line in lines for words in calls(line)):
                count += 1
                with self.subTest(page, words=words):
                    self.assert_exists(words)
        self.assertGreater(count, 80)

    def test_what_does_not_exist_is_noticed(self):
        for line in ("lfarm chek models/*", "lfarm check a --recrod m.db", "lfarm-worker --frm x"):
            with self.subTest(line), self.assertRaises(AssertionError):
                self.assert_exists(next(calls(line)))

    def test_templates_are_of_this_version(self):
        lists = (documents.ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"project\(lfarm VERSION (\S+)", lists)[1]
        for path in [*TEMPLATES, documents.DOCS / "tutorial.md"]:
            named = re.findall(r"lfarm-(\d+\.\d+\.\d+)-py3", path.read_text(encoding="utf-8"))
            self.assertEqual(set(named), {version}, path)
        debs = re.findall(r"lfarm_(\S+?)_(?:amd64|all)\.deb|lfarm-\w+_(\S+?)_amd64\.deb", documents.text("tutorial.md"))
        self.assertEqual({"".join(found) for found in debs}, {version})

    def test_their_gates_can_be_read(self):
        for path in TEMPLATES:
            for gate in re.findall(r"--gate '([^']*)'", path.read_text(encoding="utf-8")):
                self.assertRegex(gate, r"^\w+(\{\w+=[\w-]+(,\w+=[\w-]+)*\})? (<=|<|>=|>) [\d.e-]+$")


if __name__ == "__main__":
    unittest.main()
