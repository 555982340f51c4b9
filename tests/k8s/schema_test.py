"""Every object is what the Kubernetes API takes: if this fails, `kubectl apply` refuses it, or drops
a misspelt field in silence."""

import copy
import json
import lzma
import sys
import unittest
import warnings

import manifests
import yaml

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(manifests.SKIPPED)

# Kinds of other projects whose schema is not at hand.
WITHOUT_SCHEMA = {"PrometheusRule"}


def strict(schema):
    """The same schema, in which fields that it does not name are mistakes."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            result["additionalProperties"] = False
    if schema.get("format") == "int-or-string" or schema.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    return result


class Schemas(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = manifests.shared("k8s-schema")
        with lzma.open(folder / "kubernetes-definitions.json.xz", "rt") as file:
            cls.definitions = strict(json.load(file)["definitions"])
        cls.by_kind = {}
        for name, schema in cls.definitions.items():
            for kind in schema.get("x-kubernetes-group-version-kind", []):
                group = f"{kind['group']}/" if kind["group"] else ""
                cls.by_kind[f"{group}{kind['version']}", kind["kind"]] = {
                    "$ref": f"#/definitions/{name}"}
        for path in folder.glob("*.yaml"):
            custom = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
            for version in custom["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                # A definition of a custom resource leaves the metadata to the server.
                schema["properties"]["metadata"] = {
                    "$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
                cls.by_kind[f"{custom['group']}/{version['name']}", custom["names"]["kind"]] = schema

    def problems(self, each):
        schema = self.by_kind.get((each["apiVersion"], each["kind"]))
        if schema is None:
            return [f"nobody knows {each['apiVersion']} {each['kind']}"]
        validator = jsonschema.Draft4Validator({**schema, "definitions": self.definitions})
        return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}"
                for error in validator.iter_errors(each)]

    def test_every_object_has_its_schemas_form(self):
        for name in manifests.COMBINATIONS:
            for each in manifests.load(name):
                if each["kind"] in WITHOUT_SCHEMA:
                    continue
                with self.subTest(f"{name}: {manifests.title(each)}"):
                    self.assertEqual(self.problems(each), [])

    def test_mistakes_are_found(self):
        deployment = manifests.load("dev").kind("Deployment")[0]

        def broken(change):
            each = copy.deepcopy(deployment)
            change(each)
            return self.problems(each)

        self.assertEqual(self.problems(deployment), [])
        self.assertTrue(broken(lambda each: each["spec"].update(replica=1)))
        self.assertTrue(broken(lambda each: each["spec"].update(replicas="1")))
        self.assertTrue(broken(lambda each: each["spec"].pop("selector")))
        self.assertTrue(broken(lambda each: each.update(apiVersion="apps/v9")))
        self.assertTrue(broken(
            lambda each: manifests.main_container(each)["livenessProbe"].update(httpGet={})))
        self.assertTrue(broken(
            lambda each: manifests.pod(each)["securityContext"].update(runasNonRoot=True)))


if __name__ == "__main__":
    manifests.main()
