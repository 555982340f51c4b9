"""Starts the containers of a pod as plain processes: the manifest's command, arguments, variables and
files, with mounted paths moved into a folder and ports to free ones."""

import http.client
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading

import manifests

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
# Runs a command as the same process, in which it may mount.
OWN_FILES = ["unshare", "--user", "--map-root-user", "--mount"]
# For what a machine under ten times its load does late.
PATIENCE_S = 600


class Process:
    """A running program whose lines are kept, and can be waited for."""

    def __init__(self, command, environment):
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self._lines, self._ended = [], False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def pid(self):
        return self._process.pid

    def said(self):
        with self._changed:
            return "".join(self._lines)

    def until(self, pattern):
        """The first match in what it says; fails when it ends without."""
        def found():
            return re.search(pattern, "".join(self._lines))
        with self._changed:
            if not self._changed.wait_for(lambda: found() or self._ended, PATIENCE_S) or not found():
                raise AssertionError(f"never said {pattern!r}: {''.join(self._lines)}")
            return found()

    def terminate(self):
        self._process.terminate()

    def wait(self):
        code = self._process.wait(PATIENCE_S)
        self._reader.join()
        self._process.stdout.close()
        return code

    def stop(self):
        """For the end of a test, whatever state it is in."""
        if not self._process.stdout.closed:
            self._process.kill()
            self.wait()


class Pod:
    """One pod of a workload, under `folder`. `outside`: the files of what is made outside, by kind
    and name. `api`: the cluster's, for pods that have a token for it."""

    def __init__(self, objects, workload, folder, outside, api=None):
        self.objects, self.workload, self.outside, self.api = objects, workload, outside, api
        self.name = pathlib.Path(folder).name
        self.container = manifests.main_container(workload)
        self.paths = {}
        for each in manifests.all_containers(workload):
            for mount in each["volumeMounts"]:
                volume = pathlib.Path(folder) / mount["name"]
                volume.mkdir(parents=True, exist_ok=True)
                volume.chmod(0o2777)  # as a kubelet leaves it for the pod's group
                self.paths[each["name"], mount["mountPath"]] = volume
        for claim in workload["spec"].get("volumeClaimTemplates", []):
            # What a new file system has.
            (pathlib.Path(folder) / claim["metadata"]["name"] / "lost+found").mkdir(exist_ok=True)
        for volume in manifests.pod(workload)["volumes"]:
            source = None
            if "secret" in volume:
                source = outside["Secret", volume["secret"]["secretName"]]
                if "items" in volume["secret"]:
                    source = {item["path"]: source[item["key"]]
                              for item in volume["secret"]["items"]}
            if "configMap" in volume:
                source = outside["ConfigMap", volume["configMap"]["name"]]
                source = {item["path"]: source[item["key"]]
                          for item in volume["configMap"]["items"]}
            if "projected" in volume:
                source = self.api.files
            for name, content in (source or {}).items():
                file = pathlib.Path(folder) / volume["name"] / name
                file.write_text(content, encoding="utf-8")
                # As a kubelet leaves them for a pod's group.
                file.chmod(0o440)
        for first in manifests.pod(workload).get("initContainers", []):
            command = [self.moved(first, word) for word in first["command"] + first.get("args", [])]
            command[0] = str(manifests.binary(pathlib.Path(command[0]).name))
            subprocess.run(command, check=True, env=self.environment(first))

    def moved(self, container, text):
        mounts = {mount: volume for (name, mount), volume in self.paths.items()
                  if name == container["name"]}
        either = "|".join(re.escape(mount) for mount in mounts)
        return re.sub(rf"(^|=)({either})(?=/|$)",
                      lambda found: found[1] + str(mounts[found[2]]), text)

    def environment(self, container):
        values = manifests.environment(self.objects, container)
        for entry in container.get("env", []):
            field = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            if field == "metadata.name":
                values[entry["name"]] = self.name
            key = entry.get("valueFrom", {}).get("configMapKeyRef")
            if key:
                values[entry["name"]] = self.outside["ConfigMap", key["name"]][key["key"]]
        values.update(self.api.environment if self.api else {})
        values["PATH"] = os.environ["PATH"]
        for name in {"ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"} & set(os.environ):
            values[name] = os.environ[name]
        values["TMPDIR"] = self.moved(container, "/tmp")
        return values

    def start(self, changes=(), container=None):
        """A container's process, the main one's if none is named. `changes`: texts in its arguments,
        and what to put there."""
        container = container or self.container
        values = self.environment(container)
        command = [str(manifests.binary(manifests.program(container)))]
        for argument in container["args"]:
            argument = self.moved(container, manifests.expand(argument, values))
            # Of the node's ports only free ones can be had here.
            argument = argument.replace("0.0.0.0:8080", "127.0.0.1:0").replace(
                "0.0.0.0:8081", "127.0.0.1:0").replace(":7171", ":*").replace(
                ":7172", ":*")
            for old, new in changes:
                argument = argument.replace(old, new)
            command.append(argument)
        return Process(self.in_pod(command), values)

    def in_pod(self, command):
        """Where programs look for the pod's account there is nothing on this machine: such a pod gets
        a view of its own of the files."""
        account = self.paths.get((self.container["name"], ACCOUNT))
        if account is None:
            return command
        script = f"mount -t tmpfs none /run && mkdir -p {ACCOUNT} && cp {account}/* {ACCOUNT}/ && "
        return [*OWN_FILES, "sh", "-c", script + 'exec "$@"', "sh", *command]

    def pre_stop(self, process):
        """Runs the hook, for which the container's first process is number 1."""
        hook = self.container["lifecycle"]["preStop"]["exec"]["command"]
        hook = [re.sub(r"\b1$", str(process.pid), word) for word in hook]
        subprocess.run(hook, check=True)


class Site:
    """The HTTP of a process that has said where it serves it."""

    def __init__(self, process):
        self.process = process
        found = process.until(r"http on (\S+):(\d+)")
        self.address = found[1], int(found[2])

    def get(self, path, address=None):
        connection = http.client.HTTPConnection(*(address or self.address), timeout=PATIENCE_S)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read().decode()
        finally:
            connection.close()

    def probe(self, container, probe):
        asked, address = container[probe]["httpGet"], None
        if asked["port"] == "probes":
            found = self.process.until(r"probes on (\S+):(\d+)")
            address = found[1], int(found[2])
        return self.get(asked["path"], address)[0]


def farm_keys(folder):
    """What `lfarm keys init` makes, as the objects that docs/operations.md puts it into."""
    folder = pathlib.Path(folder)
    subprocess.run([manifests.binary("lfarm"), "keys", "init", "--state", str(folder), "--workers",
                    "3"], check=True, stdout=subprocess.DEVNULL)
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir()
             if file.is_file()}
    workers = {file.name: file.read_text(encoding="utf-8")
               for file in (folder / "workers").iterdir()}
    farm_key = re.search(r"^public (\S+)", texts["farm.key"], re.M)[1]
    with tempfile.TemporaryDirectory() as root:
        subprocess.run([manifests.binary("lfarm"), "keys", "delegate", f"{root}/root.key",
                        str(folder / "signing.key"), f"{root}/delegation"], check=True,
                       stdout=subprocess.DEVNULL)
        delegation = pathlib.Path(root, "delegation").read_text(encoding="utf-8")
    return {("Secret", "lfarm-signer"): {"signing.key": texts["signing.key"],
                                         "delegation": delegation},
            ("Secret", "lfarm-farm"): {name: texts[name] for name in ("farm.key", "signing.key")},
            ("Secret", "lfarm-worker"): workers,
            ("ConfigMap", "lfarm-public"): {"allow": texts["allow"], "farm-key": farm_key}}


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
