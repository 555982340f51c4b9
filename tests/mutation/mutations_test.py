"""Every mutation can be made: what it replaces stands in its file, once. If this fails, code was
changed and the mutation was not, so that the next run of run.py would stop there."""

import pathlib
import unittest

import mutations

HOME = pathlib.Path(__file__).resolve().parents[2]


class Mutations(unittest.TestCase):
    def test_stand_in_their_files(self):
        self.assertTrue(mutations.MUTATIONS)
        for _, path, old, _ in mutations.MUTATIONS:
            with self.subTest(file=path, text=old):
                self.assertEqual((HOME / path).read_text(encoding="utf-8").count(old), 1)

    def test_of_one_text_differ(self):
        places = [(path, old, new) for _, path, old, new in mutations.MUTATIONS]
        self.assertEqual(len(places), len(set(places)))

    def test_equivalents_are_among_them(self):
        places = {(path, old) for _, path, old, _ in mutations.MUTATIONS}
        self.assertLessEqual(set(mutations.EQUIVALENT), places)


if __name__ == "__main__":
    unittest.main()
