"""What farms call the jobs of programs: if this fails, people do not find their model among them."""

import json
import os
import subprocess

import lfarm


def test_jobs_are_called_as_the_modules_class(farm, fixture):
    lfarm.submit(str(fixture("mlp") / "model.pt2"), farm=farm, timeout=300, budget_candidates=1)
    command = [os.path.join(os.environ["LFARM_BIN"], "lfarm"), "jobs", "--all", "--json", "--farm", farm]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "Mlp" in [job["name"] for job in said["jobs"] + said["ended"]]
