"""Policies on GPUs, autoscalers, shards and monitoring, for the combinations that have them."""

import re

import yaml
from manifests import ROOT, environment, flags, main_container, pod, title
from policies import STORE, policy, service_reaches

PRODUCT = "nvidia.com/gpu.product"


def products(each):
    affinity = pod(each).get("affinity", {}).get("nodeAffinity", {})
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
    return {value for term in required.get("nodeSelectorTerms", [])
            for expression in term["matchExpressions"]
            if expression["key"] == PRODUCT and expression["operator"] == "In"
            for value in expression["values"]}


@policy
def gpus_are_whole_and_of_one_product(objects):
    taken = {}
    for each in objects.workers():
        its = main_container(each)
        wants = flags(objects, its).get("--device")
        gpus = its["resources"]["limits"].get("nvidia.com/gpu")
        tolerated = any(one.get("key") == "nvidia.com/gpu"
                        for one in pod(each).get("tolerations", []))
        if wants != "cuda":
            if gpus or tolerated or pod(each).get("runtimeClassName"):
                yield f"{title(each)}: keeps a GPU from others without using it"
            continue
        if gpus != "1":
            yield f"{title(each)}: has {gpus} GPUs, measures on one"
        if pod(each).get("runtimeClassName") != "nvidia" or not tolerated:
            yield f"{title(each)}: does not start on a node with GPUs"
        if len(products(each)) != 1:
            yield f"{title(each)}: does not say which GPU it measures on"
        for product in products(each):
            if product in taken:
                yield f"{title(each)}: {taken[product]} takes {product} already"
            taken[product] = title(each)
        if each["spec"]["strategy"]["rollingUpdate"].get("maxSurge") != 0:
            yield f"{title(each)}: an update waits for a GPU that only its end would free"


@policy
def autoscalers_fit_what_they_scale(objects):
    scaled, prefixes = set(), set()
    for scaler in objects.kind("ScaledObject", "HorizontalPodAutoscaler"):
        name = scaler["spec"]["scaleTargetRef"]["name"]
        its = objects.named("Deployment", name)
        if its is None:
            yield f"{title(scaler)}: no Deployment {name}"
            continue
        if name in scaled:
            yield f"{title(scaler)}: another one scales {name}"
        scaled.add(name)
        if "replicas" in its["spec"]:
            yield f"{title(its)}: to apply it undoes what {title(scaler)} did"
        if scaler["kind"] == "ScaledObject":
            yield from _scaled_object(objects, scaler, its, prefixes)
        else:
            yield from _autoscaler(objects, scaler)
    for each in objects.workloads():
        if each["metadata"]["name"] not in scaled and "replicas" not in each["spec"]:
            yield f"{title(each)}: nobody says how many"


def _scaled_object(objects, scaler, its, prefixes):
    spec = scaler["spec"]
    if spec.get("minReplicaCount") != 0:
        yield f"{title(scaler)}: keeps workers when there is nothing to do"
    if spec.get("cooldownPeriod", 300) < 300:
        yield f"{title(scaler)}: sends workers away between two steps of a search"
    wait_ms = min(int(flags(objects, main_container(each))["--no-worker-ms"])
                  for each in objects.coordinators())
    # Nodes of a pool that is empty take minutes to come up and to pull an image.
    if wait_ms < 1000 * (spec["pollingInterval"] + 600):
        yield f"{title(scaler)}: jobs give up before the first worker is there"
    if its in objects.searchers():
        yield from _searchers_scale(objects, scaler, its)
        return
    for trigger in spec["triggers"]:
        data = trigger["metadata"]
        found = re.fullmatch(r"http://([^:/]+):(\d+)/api/v1/demand\?target=([\w-]+)", data["url"])
        if trigger["type"] != "metrics-api" or found is None:
            yield f"{title(scaler)}: does not ask for the demand"
            continue
        host, port, prefix = found.groups()
        if host.count(".") < 2:
            yield f"{title(scaler)}: {host} is no name in the autoscaler's namespace"
        yield from service_reaches(objects, title(scaler), host, int(port), "http")
        if data["valueLocation"] != "wanted_workers" or float(data["targetValue"]) != 1:
            yield f"{title(scaler)}: does not count workers"
        if trigger.get("metricType", "AverageValue") != "AverageValue":
            yield f"{title(scaler)}: squares the number of workers"
        device = flags(objects, main_container(its))["--device"]
        if prefix.split("-")[0] != device or (device == "cuda" and "-sm_" not in prefix):
            yield f"{title(scaler)}: the demand for {prefix} is not for {title(its)}"
        if prefix in prefixes:
            yield f"{title(scaler)}: two start workers for {prefix}"
        prefixes.add(prefix)


def _searchers_scale(objects, scaler, its):
    """As many as take all the searches that are wanted."""
    for trigger in scaler["spec"]["triggers"]:
        data = trigger["metadata"]
        found = re.fullmatch(r"http://([^:/]+):(\d+)/api/v1/demand", data["url"])
        if trigger["type"] != "metrics-api" or found is None:
            yield f"{title(scaler)}: does not ask for the demand"
            continue
        host, port = found.groups()
        if host.count(".") < 2:
            yield f"{title(scaler)}: {host} is no name in the autoscaler's namespace"
        yield from service_reaches(objects, title(scaler), host, int(port), "http")
        if data["valueLocation"] != "searches_wanted":
            yield f"{title(scaler)}: does not count searches"
        if data["targetValue"] != flags(objects, main_container(its)).get("--searches"):
            yield f"{title(scaler)}: a searcher does not take {data['targetValue']} searches"
        if trigger.get("metricType", "AverageValue") != "AverageValue":
            yield f"{title(scaler)}: squares the number of searchers"


def _autoscaler(objects, scaler):
    if scaler["spec"].get("minReplicas", 1) < 1:
        yield f"{title(scaler)}: clusters refuse to scale to zero by default"
    there = {rule["name"]["as"] for rule in adapter_rules(objects)}
    for metric in scaler["spec"]["metrics"]:
        its = metric["external"]
        if its["metric"]["name"] not in there:
            yield f"{title(scaler)}: no rule computes {its['metric']['name']}"
        if its["target"].get("averageValue") != "1":
            yield f"{title(scaler)}: does not count workers"


def adapter_rules(objects):
    settings = objects.named("ConfigMap", "lfarm-adapter-rules")
    return yaml.safe_load(settings["data"]["rules.yaml"])["externalRules"] if settings else []


@policy
def coordinators_share_by_shards(objects):
    """All serve: each is found by its own name, and every worker serves each of them."""
    for each in objects.coordinators():
        spec, its = each["spec"], flags(objects, main_container(each))
        if its.get("--shards", "1") == "1":
            continue
        if its.get("--remote") != f"redis://{STORE}:6379":
            yield f"{title(each)}: its shards lie nowhere"
        if its.get("--identity") != "$(POD_NAME)" or "POD_NAME" not in environment(
                objects, main_container(each)):
            yield f"{title(each)}: two may go by one name"
        if its.get("--advertise") != f"tcp://$(POD_NAME).{spec['serviceName']}:7171":
            yield f"{title(each)}: clients are sent to {its.get('--advertise')}"
        name = each["metadata"]["name"]
        everyone = ",".join(f"tcp://{name}-{k}.{spec['serviceName']}:7171"
                            for k in range(spec["replicas"]))
        for worker in objects.workers():
            if flags(objects, main_container(worker)).get("--farm") != everyone:
                yield f"{title(worker)}: does not serve each coordinator"


@policy
def scraping_finds_the_metrics(objects):
    scraped = 0
    for each in objects.workloads():
        annotations = each["spec"]["template"]["metadata"].get("annotations", {})
        its = {key.split("/")[1]: value for key, value in annotations.items()
               if key.startswith("prometheus.io/")}
        scraped += bool(its)
        ports = {port["name"]: port["containerPort"] for port in main_container(each)["ports"]}
        if its and its != {"scrape": "true", "port": str(ports["http"]), "path": "/metrics"}:
            yield f"{title(each)}: is scraped at {its}"
    if scraped not in (0, len(objects.workloads())):
        yield "some pods are scraped, some are not"


def alert_rules(objects):
    return [rule for each in objects.kind("PrometheusRule")
            for group in each["spec"]["groups"] for rule in group["rules"]]


@policy
def alerts_say_what_to_do(objects):
    manual = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    headings = {line.strip("# ").lower() for line in manual.splitlines() if line.startswith("#")}
    seen = set()
    for rule in alert_rules(objects):
        name = rule["alert"]
        if name in seen:
            yield f"{name}: twice"
        seen.add(name)
        if rule.get("labels", {}).get("severity") not in ("warning", "critical"):
            yield f"{name}: no severity"
        if not re.fullmatch(r"\d+[mh]", rule.get("for", "")):
            yield f"{name}: no time"
        if not rule.get("annotations", {}).get("summary"):
            yield f"{name}: no summary"
        page, _, section = rule.get("annotations", {}).get("runbook", "").partition("#")
        if page != "docs/operations.md" or section not in headings:
            yield f"{name}: no section of the manual says what to do"
        if rule["expr"].count("(") != rule["expr"].count(")"):
            yield f"{name}: parentheses do not match"


def series(expression):
    """The names of metrics in an expression, without those of the cluster's own exporters."""
    return set(re.findall(r"\b(?:lfarm|process)_\w+", re.sub(r'"[^"]*"', "", expression)))
