"""A real farm for the page's tests: the built binaries, one coordinator and one CPU worker."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BIN = pathlib.Path(os.environ.get("LFARM_BIN", "build/bin")).resolve()
MODELS = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "models"
# Generous: tests hold on a machine that is ten times slower, and none waits that long otherwise.
PATIENCE_S = 600


def until(condition, what):
    """The condition's first true value."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE_S} s in vain: {what}")


class Farm:
    """Names are as given; what the processes say lies in `folder`."""

    def __init__(self, name="page-test", http="127.0.0.1:0", coordinator_options=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="lfarm-page-"))
        self.name = name
        self.options = list(coordinator_options)
        self.coordinator = None
        self.workers = []
        self.listen = "tcp://127.0.0.1:*"
        self.http = http
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LFARM_")}
        self.environment = {**environment, "LFARM_STATE": str(self.folder / "client")}
        self.start_coordinator()

    def start(self, log, *arguments):
        with open(self.folder / log, "ab") as out:
            return subprocess.Popen([str(argument) for argument in arguments], stdout=out,
                                    stderr=out, env=self.environment)

    def log(self, name):
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")

    def start_coordinator(self):
        """Where it was before, if it was."""
        files = [self.folder / "endpoint", self.folder / "http"]
        for file in files:
            file.unlink(missing_ok=True)
        self.coordinator = self.start(
            "coordinator.log", BIN / "lfarm-coordinator", "--listen", self.listen, "--http",
            self.http, "--state", self.folder / "state", "--endpoint-file", files[0], "--http-file",
            files[1], "--name", self.name, *self.options)

        def is_up():
            assert self.coordinator.poll() is None, self.log("coordinator.log")
            return all(file.exists() for file in files)
        until(is_up, "the coordinator's addresses")
        self.listen, self.http = (file.read_text(encoding="utf-8").strip() for file in files)

    def kill_coordinator(self):
        self.coordinator.send_signal(signal.SIGKILL)
        self.coordinator.wait()

    def start_worker(self, name):
        self.workers.append(self.start(
            f"worker-{len(self.workers)}.log", BIN / "lfarm-worker", "--farm", self.listen,
            "--device", "cpu", "--name", name, "--state", self.folder / "worker"))
        until(lambda: any(row["worker"] == name for row in self.json("workers")["workers"]),
              f"the worker {name}")

    def lfarm(self, *arguments, check=True):
        """What lfarm prints."""
        done = subprocess.run([BIN / "lfarm", *map(str, arguments)], env=self.environment,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"lfarm {arguments}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, model, *options):
        """The finished submit's JSON."""
        return json.loads(self.lfarm("submit", MODELS / model / "model.pt2", "--farm", self.listen,
                                     "--json", *options))

    def begin_submit(self, model, *options):
        return self.start("submit.log", BIN / "lfarm", "submit", MODELS / model / "model.pt2",
                          "--farm", self.listen, "--json", *options)

    def get(self, path, headers=None, address=None):
        """Status, headers and text."""
        request = urllib.request.Request(f"http://{address or self.http}{path}",
                                         headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                return reply.status, reply.headers, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.headers, refused.read().decode()

    def json(self, path):
        status, _, text = self.get(f"/api/v1/{path}")
        assert status == 200, f"{path}: {status} {text}"
        return json.loads(text)

    def stop(self):
        for process in [*self.workers, self.coordinator]:
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in [*self.workers, self.coordinator]:
            if process is None:
                continue
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
