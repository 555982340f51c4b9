#!/usr/bin/env python3
"""Breaks every stage in turn (mutations.py) and asks the tests whether they notice.

    tests/mutation/run.py DIR [STAGE | NUMBER ...]    run in a copy of this tree in DIR, print verdicts
    tests/mutation/run.py DIR --table                 what is known so far, as Markdown

All mutations are built at once into one set of binaries, where the environment variable
LFARM_MUTANT chooses one of them: a build costs minutes, asking the tests seconds. DIR keeps what is
known; a mutation is run again when it changes, or with --again. Not part of `make check`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

import mutations

HOME = pathlib.Path(__file__).resolve().parents[2]
FIRST_LIMIT_S = 900
SURVIVED = "SURVIVED"
HELPERS = """#ifndef LFARM_MUTANT_HELPERS
#define LFARM_MUTANT_HELPERS
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
[[maybe_unused]] static bool lfarm_mutant(int number) {
  static const char* chosen = std::getenv("LFARM_MUTANT");
  static const int wanted = chosen == nullptr ? 0 : std::atoi(chosen);
  return wanted == number;
}
[[maybe_unused]] static std::string lfarm_replaced(std::string_view in, std::string_view from,
                                                   std::string_view to) {
  std::string text(in);
  size_t at = text.find(from);
  if (at == std::string::npos) {
    std::fprintf(stderr, "the text to mutate is not there\\n");
    std::exit(77);
  }
  return text.replace(at, from.size(), to);
}
#endif
"""


def mutated(old, changes):
    """The text with all of its mutations, a list of (number, new text)."""
    text = old
    for number, new in changes:
        chosen = f"lfarm_mutant({number})"
        if new is None:
            text = f"if (!{chosen}) {{ {text} }}"
        elif "@" in new:
            text = new.replace("@", chosen)
        elif old.endswith(";"):
            text = f"if ({chosen}) {{ {new} }} else {{ {text} }}"
        else:
            text = f"({chosen} ? ({new}) : ({text}))"
    return text


def write_tree(tree):
    """A copy of this tree with all mutations; files that stay as they were are not touched."""
    by_file = {}
    for number, (_, path, old, new) in enumerate(mutations.MUTATIONS, 1):
        by_file.setdefault(path, {}).setdefault(old, []).append((number, new))
    names = subprocess.run(["git", "-C", HOME, "ls-files", "-coz", "--exclude-standard"], check=True,
                           capture_output=True)
    for name in names.stdout.decode().split("\0"):
        source = HOME / name
        if not name or not source.is_file():
            continue
        content = source.read_bytes()
        if name in by_file:
            text = content.decode()
            for old, changes in by_file[name].items():
                if text.count(old) != 1:
                    sys.exit(f"{name} holds {text.count(old)} times: {old}")
                text = text.replace(old, mutated(old, changes))
            content = (HELPERS + text).encode()
        target = tree / name
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(source.stat().st_mode)


def build(tree, tests):
    env = dict(os.environ, LFARM_WERROR="OFF")
    subprocess.run(["cmake", "--preset", "release"], cwd=tree, env=env, check=True,
                   stdout=subprocess.DEVNULL)
    known = subprocess.run(["ninja", "-C", "build", "-t", "targets", "all"], cwd=tree, check=True,
                           capture_output=True, text=True).stdout
    targets = {"lfarm", "lfarm-coordinator", "lfarm-worker"}
    for test in tests:
        name = test.split(".", 1)[1]
        targets.add(f"test_{name}" if f"\ntest_{name}:" in known else f"fuzz_{name}")
    subprocess.run(["nice", "ninja", "-C", "build", *sorted(targets)], cwd=tree, check=True)


def run_test(tree, test, number, limit_s):
    """None if the test passes, else what it says: its first failing case, or how it ends."""
    env = dict(os.environ, LFARM_MUTANT=str(number), GTEST_FAIL_FAST="1")
    command = ["ctest", "--test-dir", "build", "--no-tests=error", "--output-on-failure",
               "-R", f"^{re.escape(test)}(\\.[0-9]+)?$"]
    process = subprocess.Popen(command, cwd=tree, env=env, text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "hangs"
    if "the text to mutate is not there" in output:
        return "NOTHING TO MUTATE"
    if process.returncode == 0:
        return None
    case = re.search(r"\[  FAILED  \] (\w[\w/]*\.[\w/]+)", output)
    ended = re.search(r"\*\*\*(\w+)", output)
    return case.group(1) if case else ended.group(1).lower() if ended else "fails"


class Asker:
    """Asks tests in turn, the one that noticed last time first; a test may take five times what it
    takes unbroken, and a minute."""

    def __init__(self, tree, wide):
        self.tree = tree
        self.wide = wide
        self.limits = {}
        self.lock = threading.Lock()

    def limit_of(self, test):
        with self.lock:
            if test not in self.limits:
                start = time.monotonic()
                if (how := run_test(self.tree, test, 0, FIRST_LIMIT_S)) is not None:
                    sys.exit(f"{test} fails without a mutation: {how}")
                self.limits[test] = 60 + 5 * (time.monotonic() - start)
            return self.limits[test]

    def who_notices(self, stage, number, last):
        tests = mutations.STAGES[stage] + (mutations.WIDE if self.wide else [])
        for test in sorted(tests, key=lambda test: not last.startswith(test + " ")):
            how = run_test(self.tree, test, number, self.limit_of(test))
            if how is not None:
                return f"{test} ({how})"
        return SURVIVED


def one_line(text):
    return " ".join(text.split()) if text is not None else "(dropped)"


def table(known):
    print("| stage | file | was | becomes | noticed by |\n|---|---|---|---|---|")
    code = lambda text: "`` " + one_line(text).replace("|", "\\|") + " ``"
    for mutation in mutations.MUTATIONS:
        stage, path, old, new = mutation
        verdict = known.get(key_of(mutation), "not run")
        if (why := mutations.EQUIVALENT.get((path, old))) is not None:
            verdict = f"equivalent: {why}"
        shown = "(dropped)" if new is None else code(new)
        print(f"| {stage} | {pathlib.Path(path).name} | {code(old)} | {shown} | {verdict} |")


def key_of(mutation):
    return json.dumps(mutation)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=pathlib.Path)
    parser.add_argument("chosen", nargs="*", help="stages or numbers; all without any")
    parser.add_argument("--again", action="store_true", help="also what is known")
    parser.add_argument("--wide", action="store_true", help="ask also the slow tests of everything")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--jobs", type=int, default=2, help="mutations at a time")
    args = parser.parse_intermixed_args()
    results = args.dir / "mutations.json"
    known = json.loads(results.read_text()) if results.exists() else {}
    if args.table:
        return table(known)
    asked = {mutation[0] for number, mutation in enumerate(mutations.MUTATIONS, 1)
             if not args.chosen or mutation[0] in args.chosen or str(number) in args.chosen}
    write_tree(args.dir)
    build(args.dir, [test for stage in sorted(asked) for test in mutations.STAGES[stage]]
          + (mutations.WIDE if args.wide else []))
    asker = Asker(args.dir, args.wide)
    writing = threading.Lock()
    chosen = []
    for number, mutation in enumerate(mutations.MUTATIONS, 1):
        is_asked = not args.chosen or mutation[0] in args.chosen or str(number) in args.chosen
        if mutation[1:3] in mutations.EQUIVALENT:
            continue
        if is_asked and (args.again or known.get(key_of(mutation), SURVIVED) == SURVIVED):
            chosen.append((number, mutation))

    def judge(item):
        number, mutation = item
        stage, path, old, new = mutation
        verdict = asker.who_notices(stage, number, known.get(key_of(mutation), ""))
        with writing:
            known[key_of(mutation)] = verdict
            results.write_text(json.dumps(known, indent=1))
            print(f"{number} {stage}: {pathlib.Path(path).name}: {one_line(old)} -> "
                  f"{one_line(new)}: {verdict}", flush=True)
        return verdict

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        verdicts = list(pool.map(judge, chosen))
    sys.exit(1 if SURVIVED in verdicts else 0)


if __name__ == "__main__":
    main()
