"""The images hold what their programs need, and nothing that the manifests do not know: if this
fails, pods do not start. Where a builder works, images are built and looked into."""

import fnmatch
import re
import shutil
import subprocess
import unittest

import manifests

FOLDER = manifests.ROOT / "k8s" / "images"
IMAGES = {"coordinator": "lfarm-coordinator", "worker-cpu": "lfarm-worker",
          "worker-cuda": "lfarm-worker", "client": "lfarm"}
# In every Debian; what is linked besides has to be installed.
IN_BASE = {"libc6", "libgcc-s1", "libstdc++6"}
# Programs that the image's own one starts: the page shows source that the worker's writes.
BESIDE = {"coordinator": {"lfarm-worker"}}
# What programs look for when they run: a compiler, and libraries that they load by name.
LOADED = {"coordinator": set(), "worker-cpu": {"clang-14", "libopenblas0-pthread"},
          "worker-cuda": set(), "client": {"libopenblas0-pthread"}}


class Stage:
    def __init__(self, name, parent):
        self.name, self.parent, self.lines = name, parent, []


def stages():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines()
             if line.strip() and not line.startswith("#")]
    found, arguments = {}, {}
    for line in lines:
        match = re.fullmatch(r"FROM (\S+) AS (\S+)", line)
        if match:
            found[match[2]] = current = Stage(match[2], match[1])
        elif found:
            current.lines.append(line)
        else:
            name, _, value = line.removeprefix("ARG ").partition("=")
            arguments[name] = value
    return found, arguments


def chain(image):
    """The instructions that make an image, its parents' first."""
    found, _ = stages()
    lines, name = [], image
    while name in found:
        lines = found[name].lines + lines
        name = found[name].parent
    return lines


def packages(image):
    return {word for line in chain(image)
            for match in re.findall(r"install-packages ([^&|;]+)", line) for word in match.split()}


def last(image, instruction):
    values = [line.split(" ", 1)[1] for line in chain(image) if line.startswith(instruction + " ")]
    return values[-1] if values else None


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def linked_packages(programs):
    """By program: the packages of the libraries that it names, on the system that linked it."""
    for tool in ("readelf", "dpkg-query"):
        if shutil.which(tool) is None:
            raise unittest.SkipTest(f"no {tool} here")
    files = {}
    for program in programs:
        path = str(manifests.binary(program))
        names = re.findall(r"\(NEEDED\).*\[(lib.*)\]", output("readelf", "-d", path))
        paths = dict(re.findall(r"(\S+) => (\S+)", output("ldd", path)))
        files[program] = {paths[name].rsplit("/", 1)[1] for name in names}
    # dpkg knows files by the path before /lib became a link. One call: it reads all its lists.
    said = subprocess.run(["dpkg-query", "-S", *(f"*/{file}" for file in set.union(*files.values()))],
                          capture_output=True, text=True, check=False).stdout
    owners = {match[2]: match[1] for match in re.finditer(
        r"^([^:\s]+)(?::\w+)?: /(?:usr/)?lib/(?:.*/)?([^/\n]+)$", said, re.M)}
    for file in set.union(*files.values()) - set(owners):
        raise unittest.SkipTest(f"{file} is of no Debian package")
    if any(re.match("lib[at]san", file) for its in files.values() for file in its):
        raise unittest.SkipTest("no image holds programs with sanitizers, which link other libraries")
    return {program: {owners[file] for file in its} for program, its in files.items()}


class Dockerfile(unittest.TestCase):
    def test_packages_are_those_of_the_linked_libraries(self):
        linked = linked_packages(set(IMAGES.values()))
        for image, program in IMAGES.items():
            with self.subTest(image):
                self.assertEqual(packages(image) - LOADED[image], linked[program] - IN_BASE)
                self.assertLessEqual(LOADED[image], packages(image))
                for beside in BESIDE.get(image, ()):
                    self.assertLessEqual(linked[beside] - IN_BASE, packages(image))

    def test_images_run_as_their_pods_do(self):
        objects = manifests.load("gpu")
        users = set()
        for each in objects.workloads():
            container = manifests.main_container(each)
            image = container["image"].partition(":")[0].removeprefix("lfarm-")
            context = manifests.pod(each)["securityContext"]
            users.add(f"{context['runAsUser']}:{context['runAsGroup']}")
            self.assertEqual(last(image, "ENTRYPOINT"), f'["{container["command"][0]}"]')
            copied = {line.split()[-1] + source.rsplit("/", 1)[1]
                      for line in chain(image) if line.startswith("COPY --from=binaries")
                      for source in line.split()[2:-1]}
            beside = {f"/usr/bin/{program}" for program in BESIDE.get(image, ())}
            self.assertEqual(copied, {container["command"][0]} | beside)
        self.assertEqual({last(image, "USER") for image in IMAGES}, users)
        self.assertEqual(len(users), 1)

    def test_images_come_from_arguments_without_hosts(self):
        found, arguments = stages()
        for stage in found.values():
            name = stage.parent
            if name in found:
                continue
            self.assertRegex(name, r"^\$\{\w+\}$")
            default = arguments[name[2:-1]]
            self.assertNotRegex(default.split("/")[0] if "/" in default else "", r"[.:]")
        for image in IMAGES:
            self.assertIn(image, found)
            self.assertIsNone(last(image, "HEALTHCHECK"))
        for name in manifests.COMBINATIONS:
            for each in manifests.load(name).workloads():
                self.assertNotIn("/", manifests.main_container(each)["image"])

    def test_nothing_installs_past_the_script_that_cleans_up(self):
        text = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
        self.assertNotRegex(text, r"apt-get|\bcurl\b|\bwget\b|^ADD ")
        script = (FOLDER / "install.sh").read_text(encoding="utf-8")
        for trace in ("/var/lib/apt/lists", "/var/cache/apt", "/var/log"):
            self.assertRegex(script, rf"rm -rf[^\n]*(\\\n[^\n]*)*{trace}")

    def test_each_stage_declares_what_it_uses(self):
        """Debian 12's buildah passes no argument on from the stage that another is built on."""
        found, _ = stages()
        for name, stage in found.items():
            declared = {line.removeprefix("ARG ").partition("=")[0] for line in stage.lines
                        if line.startswith("ARG ")}
            commands = " ".join(line for line in stage.lines if line.startswith("RUN "))
            used = set(re.findall(r"\$\{?(MIRROR|SOURCE_DATE_EPOCH)", commands))
            if "install-packages" in commands:
                used |= {"MIRROR", "SOURCE_DATE_EPOCH"}
            self.assertLessEqual(used, declared, name)

    def test_what_is_copied_is_sent_to_the_builder(self):
        rules = [line for line in (FOLDER / "Dockerfile.dockerignore").read_text(
            encoding="utf-8").splitlines() if line and not line.startswith("#")]

        def is_sent(path):
            sent = True
            for rule in rules:
                pattern = rule.lstrip("!")
                if any(fnmatch.fnmatch(part, pattern) for part in (path, *parents(path))):
                    sent = rule.startswith("!")
            return sent

        found, _ = stages()
        for stage in found.values():
            for line in stage.lines:
                if line.startswith("COPY ") and "--from" not in line:
                    for path in line.split()[1:-1]:
                        if path == ".":
                            continue
                        self.assertTrue(is_sent(path), path)
                        if not path.startswith("build/"):
                            self.assertTrue((manifests.ROOT / path).exists(), path)
        for folder in (manifests.ROOT / "CMakeLists.txt").read_text(encoding="utf-8").split(
                "foreach(folder ")[1].split(")")[0].split():
            self.assertTrue(is_sent(f"{folder}/CMakeLists.txt"), folder)
        self.assertFalse(is_sent(".git/config"))
        self.assertFalse(is_sent("build/build.ninja"))


def parents(path):
    parts = path.split("/")
    return ["/".join(parts[:k]) for k in range(1, len(parts))]


def builder():
    for name in ("docker", "podman", "buildah"):
        if shutil.which(name) and subprocess.run(
                [name, "info"], capture_output=True, check=False).returncode == 0:
            return name
    raise unittest.SkipTest("neither docker, podman nor buildah works here")


class Built(unittest.TestCase):
    def test_the_coordinators_image_is_small_and_starts(self):
        tool = builder()
        base = stages()[1]["BASE"]
        if subprocess.run([tool, "pull", base], capture_output=True, check=False).returncode != 0:
            raise unittest.SkipTest(f"{base} cannot be pulled here")
        manifests.binary("lfarm-coordinator")
        built = subprocess.run([FOLDER / "build.sh", "--prebuilt", "--tag", "test", "coordinator"],
                               capture_output=True, text=True, check=False)
        self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        if tool == "buildah":
            raise unittest.SkipTest("buildah runs no images: the coordinator's was built only")
        image = "lfarm-coordinator:test"
        help_ = output(tool, "run", "--rm", "--read-only", "--cap-drop=ALL", image, "--help")
        self.assertIn("--listen", help_)
        self.assertEqual(output(tool, "run", "--rm", "--entrypoint", "/usr/bin/id", image, "-u"),
                         "10001\n")
        size = int(output(tool, "image", "inspect", "--format", "{{.Size}}", image))
        self.assertLess(size, 200 << 20)


if __name__ == "__main__":
    manifests.main()
