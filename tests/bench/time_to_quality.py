"""How long searches take until their plans are nearly as fast as the last ones.

usage: time_to_quality.py BIN SECONDS MODEL.pt2...

Has a farm of this machine, in a directory of its own, search SECONDS for each model in turn (BIN is
where lfarm is). Prints a row of Markdown for each: seconds until the best known was within 5 % of
the last, seconds of the whole submit, candidates, and the last best in microseconds.
"""

import json
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

NEAR = 0.95
START_S = 60


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Farm:
    def __init__(self, binaries, state):
        port = free_port()
        self.lfarm, self.state, self.url = f"{binaries}/lfarm", state, f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [self.lfarm, "up", "--device", "cpu", "--state", state, "--http", str(port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def ask(self, path):
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}") as answer:
            return json.load(answer)

    def wait(self):
        for _ in range(START_S * 10):
            try:
                return self.ask("overview")
            except urllib.error.URLError:
                time.sleep(0.1)
        raise SystemExit(f"the farm did not start within {START_S} s")

    def submit(self, model, seconds):
        subprocess.run([self.lfarm, "submit", model, "--device", "cpu", "--state", self.state,
                        "--time", str(seconds), "--budget", "1000000"],
                       check=True, stdout=subprocess.DEVNULL)
        latest = self.ask("jobs?count=1")["rows"][0]["job"]
        return self.ask(f"jobs/{latest}")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main(binaries, seconds, *models):
    with tempfile.TemporaryDirectory() as state:
        farm = Farm(binaries, state)
        try:
            farm.wait()
            print("| model | s to 95 % | s in all | candidates | us |\n|---|--:|--:|--:|--:|")
            for model in models:
                start = time.monotonic()
                points = farm.submit(model, float(seconds))["course"]["points"]
                took = time.monotonic() - start
                measured = [(ms, best) for _, ms, best, is_measured in points if is_measured]
                last = measured[-1][1]
                near = next(ms for ms, best in measured if best * NEAR <= last)
                path = pathlib.Path(model)
                name = path.parent.name if path.name == "model.pt2" else path.stem
                print(f"| {name} | {near / 1e3:.1f} | {took:.0f} | {points[-1][0]} "
                      f"| {last / 1e3:.2f} |", flush=True)
        finally:
            farm.stop()


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
