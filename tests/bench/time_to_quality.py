"""What plans lose when searches get less time.

usage: time_to_quality.py BIN SHORT LONG CASE...

Searches each case (a folder with model.pt2, inputs/ and outputs/) anew for SHORT and for LONG seconds,
on a farm of this machine that has learned nothing (BIN is where lfarm is), and measures the two plans
in turns. Prints a row of Markdown for each: seconds of the whole first submit, the plans' times in
microseconds, and how much of the long search's quality the short one reached. A search that ran LONG
seconds again gives the last column: what two of the same length differ by.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TURNS = 7
THREADS = "2"


class Plan:
    """Of one search, in a state directory of its own."""

    def __init__(self, binaries, state, case, seconds, seed):
        self.measure = [f"{binaries}/lfarm-bench", "models", str(case), "--state", state,
                        "--threads", THREADS, "--rounds", "3", "--json"]
        start = time.monotonic()
        subprocess.run([f"{binaries}/lfarm", "submit", str(case / "model.pt2"), "--device", "cpu",
                        "--state", state, "--time", str(seconds), "--budget", "1000000",
                        "--seed", str(seed)], check=True, capture_output=True)
        self.search_s = time.monotonic() - start
        self.us = []

    def turn(self):
        out = subprocess.run(self.measure, check=True, capture_output=True, text=True).stdout
        row = json.loads(out.splitlines()[0])
        if "notes" in row or row["lfarm_ms"] is None:
            raise SystemExit(f"not measured: {row}")
        self.us.append(row["lfarm_ms"] * 1e3)

    def median(self):
        return statistics.median(self.us)


def main(binaries, short, long, *cases):
    print("| model | s to submit | us | us of the long search | quality | long beside long |\n"
          "|---|--:|--:|--:|--:|--:|")
    for case in map(pathlib.Path, cases):
        with tempfile.TemporaryDirectory() as state:
            plans = [Plan(binaries, f"{state}/{n}", case, seconds, n)
                     for n, seconds in enumerate([short, long, long])]
            for _ in range(TURNS):
                for plan in plans:
                    plan.turn()
        brief, best, other = (plan.median() for plan in plans)
        print(f"| {case.name} | {plans[0].search_s:.0f} | {brief:.3g} | {best:.3g} "
              f"| {best / brief:.2f} | {best / other:.2f} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        raise SystemExit(__doc__)
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), *sys.argv[4:])
