"""Who may see the farm over HTTP, and what a request that is malformed is told. If these fail,
strangers read the source of everyone's kernels, or scripts parse answers that are none."""

import json
import os
import socket
import subprocess
import tempfile
import unittest
import urllib.request

from browser import Browser
from farm import BIN, PATIENCE_S, Farm

TOKEN = "a-token-of-a-farm-in-a-test"
GUARDED = ("status", "workers", "jobs", "cache", "overview", "jobs/1", "jobs/1/candidates", "plans")


def other_address():
    """This machine's address that is not loopback; None where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # nothing is sent
        except OSError:
            return None
        address = probe.getsockname()[0]
        return None if address.startswith("127.") else address


class Without(unittest.TestCase):
    """No token: this machine's users see all, others probes, metrics and demand."""

    @classmethod
    def setUpClass(cls):
        cls.farm = Farm()
        cls.addClassCleanup(cls.farm.stop)

    def refused(self, path, headers=None, address=None):
        status, _, text = self.farm.get(f"/api/v1/{path}", headers, address)
        self.assertEqual(status, 403, f"{path} {headers}: {text}")
        self.assertIn("--http-token-file", json.loads(text)["error"])

    def test_this_machine_sees_all(self):
        for path in GUARDED:
            status, headers, _ = self.farm.get(f"/api/v1/{path}")
            self.assertIn(status, (200, 404), path)
            self.assertEqual(headers["Content-Type"], "application/json")
        port = self.farm.http.rsplit(":", 1)[1]
        self.assertEqual(self.farm.get("/api/v1/status", {"Host": f"localhost:{port}"})[0], 200)

    def test_another_name_or_a_proxy_is_refused(self):
        for path in GUARDED:
            self.refused(path, {"Host": "harmless.example:8080"})
        for host in ("127.0.0.1.example", "localhost.example:80", "localhost:80x", "[::1].example",
                     "127.0.0.1@example"):
            self.refused("status", {"Host": host})
        for header in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
            self.refused("status", {header: "127.0.0.1"})

    def test_monitoring_is_for_all(self):
        for path in ("/livez", "/readyz", "/startupz", "/metrics", "/api/v1/demand", "/api/v1"):
            self.assertEqual(self.farm.get(path, {"Host": "lfarm.example"})[0], 200, path)

    def test_from_another_address(self):
        address = other_address()
        if address is None:
            self.skipTest("this machine has no address but loopback")
        farm = Farm(http="0.0.0.0:0")
        self.addCleanup(farm.stop)
        port = farm.http.rsplit(":", 1)[1]
        for path in GUARDED:
            status, _, _ = farm.get(f"/api/v1/{path}", {"Host": "127.0.0.1"}, f"{address}:{port}")
            self.assertEqual(status, 403, path)
        self.assertEqual(farm.get("/metrics", None, f"{address}:{port}")[0], 200)
        self.assertEqual(farm.get("/api/v1/status", None, f"127.0.0.1:{port}")[0], 200)

    def test_requests_that_are_wrong_are_told_so(self):
        for path, status, says in (
                ("jobs/x", 400, "a job is a number"),
                ("jobs/99999999999999999999999", 400, "a job is a number"),
                ("jobs/7", 404, "no such job is open"),
                ("jobs/7/candidates?outcome=lost", 400, "outcome is ok"),
                ("jobs?count=0", 400, "count is a number from 1 to 200"),
                ("jobs?count=201", 400, "count is a number from 1 to 200"),
                ("jobs?skip=-1", 400, "skip is a number"),
                ("plans/xyz", 400, "64 hexadecimal digits"),
                ("plans/abc", 404, "no such plan"),
                (f"plans/{'0' * 64}", 404, "no such plan"),
                (f"plans/{'0' * 64}/kernels/x", 400, "a kernel is a number"),
                ("jobs/7/other", 404, "nothing is here"),
                ("other", 404, "nothing is here")):
            code, headers, text = self.farm.get(f"/api/v1/{path}")
            self.assertEqual(code, status, f"{path}: {text}")
            self.assertIn(says, json.loads(text)["error"], path)
            self.assertEqual(headers["Content-Type"], "application/json")

    def test_every_answer_confines_the_page(self):
        for path in ("/", "/page/main.js", "/api/v1/status", "/nowhere"):
            _, headers, _ = self.farm.get(path)
            policy = headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(headers["Cache-Control"], "no-store")


class Up(unittest.TestCase):
    """lfarm up says where its page is."""

    def test_the_address_is_printed_and_serves(self):
        with tempfile.TemporaryDirectory(prefix="lfarm-page-up-") as folder:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("LFARM_")}
            up = subprocess.Popen([BIN / "lfarm", "up", "--workers", "1", "--http", "0", "--state",
                                   folder], stdout=subprocess.PIPE, text=True, env=environment)
            try:
                lines = iter(up.stdout.readline, "")
                page = next(line for line in lines if line.startswith("page at "))
                address = page.split("http://")[1].strip().rstrip("/")
                self.assertRegex(address, r"^127\.0\.0\.1:[1-9][0-9]*$")
                with urllib.request.urlopen(f"http://{address}/", timeout=PATIENCE_S) as reply:
                    self.assertIn("<title>lfarm</title>", reply.read().decode())
            finally:
                up.terminate()
                up.wait(PATIENCE_S)
                up.stdout.close()
            self.assertEqual(up.returncode, 0)


class With(unittest.TestCase):
    """A token: who has it sees all, this machine's users without it as little as others."""

    @classmethod
    def setUpClass(cls):
        handle, path = tempfile.mkstemp(prefix="lfarm-token-")  # of mode 0600
        cls.addClassCleanup(os.unlink, path)
        with os.fdopen(handle, "w") as file:
            file.write(TOKEN + "\n")
        cls.farm = Farm(coordinator_options=("--http-token-file", path))
        cls.addClassCleanup(cls.farm.stop)

    def test_the_token_decides(self):
        for path in GUARDED:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN},
                            {"Authorization": f"Bearer {TOKEN}x"}):
                status, answer, text = self.farm.get(f"/api/v1/{path}", headers)
                self.assertEqual(status, 401, path)
                self.assertEqual(answer["WWW-Authenticate"], 'Bearer realm="lfarm"')
                self.assertNotIn(TOKEN, text)
            status, _, _ = self.farm.get(f"/api/v1/{path}",
                                         {"Authorization": f"Bearer {TOKEN}", "Host": "any.example"})
            self.assertIn(status, (200, 404), path)
        self.assertEqual(self.farm.get("/metrics")[0], 200)

    def test_the_page_asks_for_it(self):
        browser = Browser(self.farm)
        self.addCleanup(browser.close)
        browser.expected = ["401"]
        browser.open("/")
        browser.shows("Not for everyone", "h1")
        browser.run("document.querySelector('#token').focus()")
        browser.run("document.querySelector('#token').dataset.refused = 'yes'")
        field = browser.driver.switch_to.active_element
        field.send_keys("not this one\n")
        # The page asks again with another field, which takes the place of the one that was typed in.
        browser.until("const field = document.querySelector('#token');"
                      "return field !== null && !field.dataset.refused")
        browser.shows("Not for everyone", "h1")
        browser.run("document.querySelector('#token').focus()")
        browser.driver.switch_to.active_element.send_keys(TOKEN + "\n")
        browser.shows("Farm page-test", "h1")
        self.assertEqual(browser.faults(), [])

    def test_a_file_that_is_none_is_refused(self):
        short = self.farm.folder / "short"
        short.write_text("short\n", encoding="utf-8")
        short.chmod(0o600)
        open_to_all = self.farm.folder / "open"
        open_to_all.write_text(TOKEN, encoding="utf-8")
        open_to_all.chmod(0o644)
        for file, says in ((short, "holds no token"), (open_to_all, "open")):
            done = subprocess.run(
                [BIN / "lfarm-coordinator", "--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0",
                 "--state", self.farm.folder / "other", "--http-token-file", file],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
