"""wheel_test.py BUILD: makes a wheel of the build, installs it into a folder of its own and runs it there.
If this fails, pip rejects what `make wheel` made, or installs a package that does not run.

What is built here is linked with Debian's shared libraries; that the wheel of `make wheel` runs elsewhere
`make check-fresh` shows.
"""

import base64
import csv
import email
import hashlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CASE = ROOT / "tests" / "fixtures" / "models" / "mlp"
SKIPPED = 77
BUILD = pathlib.Path(sys.argv.pop(1)).resolve()

RUN = """
import lfarm, numpy, pathlib, sys
case, home = map(pathlib.Path, sys.argv[1:])
assert home in pathlib.Path(lfarm.__file__).parents, lfarm.__file__
x = numpy.load(case / "inputs" / "0.npy")
assert numpy.allclose(lfarm.load(case / "model.pt2", deadline=0)(x), numpy.load(case / "outputs" / "0.npy"), atol=1e-5)
"""


def run(*command, **arguments):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **arguments)
    if done.returncode != 0:
        raise AssertionError(f"{command}:\n{done.stdout}")
    return done.stdout


def make(out, *options):
    run(sys.executable, "-B", ROOT / "packaging" / "wheel.py", BUILD, out, *options)
    (path,) = pathlib.Path(out).glob("*.whl")
    return path


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.path = make(cls.folder / "first")
        with zipfile.ZipFile(cls.path) as archive:
            cls.files = {name: archive.read(name) for name in archive.namelist()}
            cls.modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}

    def text(self, name):
        (content,) = [self.files[each] for each in self.files if each.endswith(f".dist-info/{name}")]
        return content.decode()

    def test_the_same_build_gives_the_same_bytes(self):
        self.assertEqual(self.path.read_bytes(), make(self.folder / "second").read_bytes())

    def test_the_record_has_every_file(self):
        rows = list(csv.reader(self.text("RECORD").splitlines()))
        self.assertEqual({row[0] for row in rows}, set(self.files))
        for name, digest, size in rows:
            if name.endswith("/RECORD"):
                self.assertEqual((digest, size), ("", ""))
                continue
            sha256 = base64.urlsafe_b64encode(hashlib.sha256(self.files[name]).digest()).decode()
            self.assertEqual((digest, int(size)), (f"sha256={sha256.rstrip('=')}", len(self.files[name])))

    def test_metadata_says_what_it_is(self):
        version = run(BUILD / "bin" / "lfarm", "--version").split()[-1]
        self.assertEqual(self.path.name, f"lfarm-{version}-py3-none-linux_x86_64.whl")
        told = email.message_from_string(self.text("METADATA"))
        self.assertEqual((told["Name"], told["Version"]), ("lfarm", version))
        self.assertIn("numpy", told.get_all("Requires-Dist"))
        self.assertIn("torch.compile", told.get_payload())
        wheel = email.message_from_string(self.text("WHEEL"))
        self.assertEqual((wheel["Tag"], wheel["Root-Is-Purelib"]), ("py3-none-linux_x86_64", "false"))
        for name in ("lfarm/bin/lfarm", "lfarm/bin/lfarm-worker", "lfarm/bin/lfarm-coordinator"):
            self.assertTrue(self.modes[name] & 0o111, f"nobody may execute {name}")

    def test_a_glibc_that_is_too_new_is_refused(self):
        with self.assertRaisesRegex(AssertionError, r"needs glibc 2\.\d+, more than 2\.1"):
            make(self.folder / "refused", "--glibc", "2.1")

    def test_it_runs_where_pip_installed_it(self):
        for module in ("pip", "numpy"):
            if importlib.util.find_spec(module) is None:
                self.skipTest(f"{sys.executable} lacks {module}")
        site = self.folder / "site"
        run(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", site, self.path)
        changed = {"PYTHONPATH": str(site), "LFARM_STATE": str(self.folder / "state")}
        environment = {**os.environ, **changed}
        for name in ("LFARM_LIBRARY", "LFARM_FARM"):
            environment.pop(name, None)
        self.assertEqual(run(site / "bin" / "lfarm", "--version", env=environment),
                         run(BUILD / "bin" / "lfarm", "--version"))
        # A farm of its own, by the programs that the wheel brings.
        run(site / "bin" / "lfarm", "check", CASE, "--budget", "2", env=environment)
        points = ("import importlib.metadata as m; "
                  "print([p.value for p in m.distribution('lfarm').entry_points if p.group == 'torch_dynamo_backends'])")
        self.assertIn("lfarm.compile:backend", run(sys.executable, "-c", points, env=environment))
        preload = os.environ.get("LFARM_PRELOAD")
        run(sys.executable, "-c", RUN, CASE, site,
            env={**environment, **({"LD_PRELOAD": preload} if preload else {})})


if __name__ == "__main__":
    if sys.version_info < (3, 11):
        print("skipped: packaging/wheel.py needs Python 3.11")
        sys.exit(SKIPPED)
    unittest.main()
