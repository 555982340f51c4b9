"""The manifests are good citizens, in every combination; and each policy notices its violation: if
a mutation passes, the policy protects nothing."""

import unittest

import manifests
import mutations_scaling  # noqa: F401: adds its mutations
from mutations import MUTATIONS
import policies_scaling  # noqa: F401: adds its policies
from policies import POLICIES


class Policies(unittest.TestCase):
    maxDiff = None

    def test_every_combination_keeps_every_policy(self):
        for name in manifests.COMBINATIONS:
            objects = manifests.load(name)
            for policy, check in POLICIES.items():
                with self.subTest(f"{name}: {policy}"):
                    self.assertEqual(list(check(objects)), [])

    def test_every_mutation_is_noticed(self):
        for combination, policy, what, mutate in MUTATIONS:
            with self.subTest(f"{policy}: {what}"):
                objects = manifests.load(combination)
                before = manifests.load(combination)
                mutate(objects)
                self.assertNotEqual(objects, before, "the mutation changes nothing")
                self.assertNotEqual(list(POLICIES[policy](objects)), [])

    def test_every_policy_has_a_mutation(self):
        self.assertEqual(set(POLICIES) - {policy for _, policy, _, _ in MUTATIONS}, set())


if __name__ == "__main__":
    manifests.main()
