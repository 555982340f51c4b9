"""The commands of README.md, in its order: if this fails, the first lines that people try are refused.

Names that stand for what a user has (model.pt2, in/, case/, DIR) are bundled models here, searches are
shorter, and lines that ask PyTorch are left out where /usr/bin/python3 has none. LFARM_BIN has the programs.
"""

import re
import unittest

import documents

README = (documents.ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = documents.blocks(README, "sh")
FIXTURES = documents.ROOT / "tests" / "fixtures"
MODELS = f"""cp {FIXTURES}/models/mlp/model.pt2 model.pt2
cp -r {FIXTURES}/models/mlp case
cp -r case/inputs in
cp {FIXTURES}/models/mlp_dynamic/model.pt2 a.pt2
cp a.pt2 b.pt2
"""
# Commands after `lfarm up` find its farm once it listens.
UP = """ >up.log
until grep -qs '^farm at' up.log; do sleep 0.1; done
"""


def block(beginning):
    (found,) = [text for text, _ in BLOCKS if text.startswith(beginning)]
    return found


def without_remarks(text):
    return re.sub(r" +# .*$", "", text, flags=re.M)


def with_farm(text):
    """Waits for the farm that the block's first line starts."""
    return re.sub(r"(lfarm up .*) &\n", lambda up: f"{up[1]}{UP.replace('>up.log', '>up.log &', 1)}", text, count=1)


def shorter(text):
    budgets = {"64": "4", "1000": "8"}
    return re.sub(r"--budget (\d+)", lambda found: f"--budget {budgets[found[1]]}", text)


class Readme(unittest.TestCase):
    def test_the_first_commands(self):
        commands = shorter(with_farm(without_remarks(block("lfarm up --workers"))))
        commands = commands.replace("s0=64\"", "s0=64\" --budget 4")
        commands = commands.replace("8080", documents.free_port()).replace("package.module:Model", "torch.nn:Identity")
        asks_torch = re.compile(r"^lfarm (submit torch\S+|compare) .*\n", re.M)
        self.assertEqual(len(asks_torch.findall(commands)), 2)
        if not documents.has("torch"):
            commands = asks_torch.sub("", commands)
        shell = documents.Shell(self)
        shell.run(MODELS + commands.replace("kill %1", "kill %1\nwait %1"))
        for made in ("out/0.npy", "model.plans", "m.db", "trace.json"):
            self.assertTrue((shell.work / made).exists(), made)

    def test_a_farm_for_others(self):
        commands = with_farm(without_remarks(block("lfarm up --listen")))
        commands = commands.replace("tcp://farm:7171", "tcp://127.0.0.1:7171").replace("7171", documents.free_port())
        commands = commands.replace("KEY=KEY", "KEY=\"$(sed -n 's/^public key \\([^,]*\\),.*/\\1/p' up.log)\"")
        commands = commands.replace("lfarm submit model.pt2", "lfarm submit model.pt2 --budget 4 | tee submitted")
        commands = commands.replace("PLAN", "\"$(sed -n 's/^plan *\\([0-9a-f]*\\) .*/\\1/p' submitted)\"")
        # The farm takes up its changed list within a second.
        commands = commands.replace("export ", "export LFARM_STATE=$PWD/ada ", 1)
        commands = commands.replace("\nlfarm submit", "\nuntil lfarm status; do sleep 0.5; done\nlfarm submit")
        commands = commands.replace("unset ", "export LFARM_STATE=$PWD/farm\nunset ")
        documents.Shell(self).run(f"{MODELS}export LFARM_STATE=$PWD/farm\n{commands}\nkill %1\nwait %1\n")

    def test_language_models_and_sizes(self):
        commands = without_remarks(block("lfarm generate DIR"))
        commands = commands.replace("DIR", f"{FIXTURES}/decoder").replace("ids.txt", f"{FIXTURES}/decoder/prompt.txt")
        commands = commands.replace("--tokens 64", "--tokens 4 --budget 2").replace("model.pt2", "a.pt2")
        commands = commands.replace("s0=2..128\"", "s0=2..64\" --budget 2")
        shell = documents.Shell(self)
        shell.run(MODELS + commands)
        self.assertIn('"graph_hash"', (shell.work / "model.json").read_text(encoding="utf-8"))

    def test_other_blocks_say_what_they_need(self):
        run = {block(beginning) for beginning in ("lfarm up --workers", "lfarm up --listen", "lfarm generate DIR")}
        self.assertEqual({needs for text, needs in BLOCKS if text not in run}, {"make", "kubernetes", "build"})

    def test_its_goals_of_make_exist(self):
        makefile = (documents.ROOT / "Makefile").read_text(encoding="utf-8")
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", README, re.M))
        self.assertLessEqual({"demo", "check", "package", "gpu-check"}, named)
        self.assertLessEqual(named, set(re.findall(r"^([a-z-]+):", makefile, re.M)))

    def test_its_links_lead_somewhere(self):
        links = re.findall(r"\]\(([^)#:]+)", README)
        self.assertGreater(len(links), 10)
        for link in links:
            self.assertTrue((documents.ROOT / link).exists(), link)


if __name__ == "__main__":
    unittest.main()
