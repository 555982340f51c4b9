"""Mutations for the policies of policies_scaling.py."""

from manifests import main_container, pod
from mutations import MUTATIONS, argument, drop, dropped, mutation, spec_of

GPUS = "gpus_are_whole_and_of_one_product"
SCALERS = "autoscalers_fit_what_they_scale"
SCRAPING = "scraping_finds_the_metrics"
ALERTS = "alerts_say_what_to_do"


def add(policy, what, change, combination="everything"):
    MUTATIONS.append((combination, policy, what, change))


def on_worker(policy, what, change, name="lfarm-worker-h100"):
    add(policy, what, lambda objects: change(objects.named("Deployment", name)))


for side_ in ("requests", "limits"):
    on_worker("containers_have_requests_and_limits", f"a GPU without {side_}",
              lambda each, side=side_: main_container(each)["resources"][side].pop(
                  "nvidia.com/gpu"))
on_worker(GPUS, "two GPUs", lambda each: main_container(each)["resources"]["limits"].update(
    {"nvidia.com/gpu": "2"}))
on_worker(GPUS, "no GPU", lambda each: main_container(each)["resources"]["limits"].pop(
    "nvidia.com/gpu"))
for field_ in ("runtimeClassName", "tolerations", "affinity"):
    on_worker(GPUS, f"no {field_}", lambda each, field=field_: pod(each).pop(field))
on_worker(GPUS, "two products", lambda each: pod(each)["affinity"]["nodeAffinity"][
    "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][
        0]["values"].append("NVIDIA-H200"))
on_worker(GPUS, "another one's product", lambda each: pod(each)["affinity"]["nodeAffinity"][
    "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]["matchExpressions"][
        0].update(values=["NVIDIA-L4"]))
on_worker(GPUS, "a surge", lambda each: each["spec"]["strategy"]["rollingUpdate"].update(
    maxSurge=1))
on_worker(GPUS, "a GPU for a processor's worker",
          lambda each: main_container(each)["resources"]["limits"].update(
              {"nvidia.com/gpu": "1"}), "lfarm-worker-cpu")
on_worker("images_are_named_exactly", "the image for processors",
          lambda each: main_container(each).update(image="lfarm-worker-cpu:0.1.0"))

on_worker(SCALERS, "replicas of an autoscaled Deployment",
          lambda each: each["spec"].update(replicas=1))
dropped(SCALERS, "ScaledObject", "lfarm-worker-cpu", "everything")
dropped(SCALERS, "Deployment", "lfarm-worker-l4", "everything")
dropped(SCALERS, "ConfigMap", "lfarm-adapter-rules", "hpa")


def on_scaler(what, change, name="lfarm-worker-h100"):
    add(SCALERS, what, lambda objects: change(spec_of(objects, "ScaledObject", name)))


def trigger(**fields):
    return lambda spec: spec["triggers"][0]["metadata"].update(fields)


DEMAND = "http://lfarm-coordinator.{}:{}/api/v1/{}?target={}".format
on_scaler("not to zero", lambda spec: spec.update(minReplicaCount=1))
on_scaler("no patience", lambda spec: spec.update(cooldownPeriod=10))
on_scaler("a short name", trigger(url=DEMAND("lfarm", 8080, "demand", "cuda-sm_90")))
on_scaler("another namespace", trigger(url=DEMAND("other.svc", 8080, "demand", "cuda-sm_90")))
on_scaler("another port", trigger(url=DEMAND("lfarm.svc", 7171, "demand", "cuda-sm_90")))
on_scaler("another path", trigger(url=DEMAND("lfarm.svc", 8080, "status", "cuda-sm_90")))
on_scaler("another device's demand", trigger(url=DEMAND("lfarm.svc", 8080, "demand", "cpu")))
on_scaler("all GPUs' demand", trigger(url=DEMAND("lfarm.svc", 8080, "demand", "cuda")))
on_scaler("the demand that another one meets",
          trigger(url=DEMAND("lfarm.svc", 8080, "demand", "cuda-sm_89")))
on_scaler("tasks for workers", trigger(valueLocation="queue_depth"))
on_scaler("a value for all", lambda spec: spec["triggers"][0].update(metricType="Value"))
on_scaler("a target twice", lambda spec: spec["scaleTargetRef"].update(name="lfarm-worker-l4"))
add(SCALERS, "jobs that do not wait for a node",
    lambda objects: argument(main_container(objects.coordinators()[0]), "--no-worker-ms", "30000"))
add(SCALERS, "a minimum of none",
    lambda objects: spec_of(objects, "HorizontalPodAutoscaler", "lfarm-worker-cpu").update(
        minReplicas=0), "hpa")
add(SCALERS, "a metric that no rule computes",
    lambda objects: spec_of(objects, "HorizontalPodAutoscaler", "lfarm-worker-cpu")["metrics"][0][
        "external"]["metric"].update(name="lfarm_queue"), "hpa")

SEARCHES = "http://lfarm-coordinator.lfarm.svc:8080/api/v1/{}".format
for what_, change_ in (
        ("searches for workers", trigger(valueLocation="wanted_workers")),
        ("more searches than a searcher takes", trigger(targetValue="4")),
        ("another path", trigger(url=SEARCHES("status"))),
        ("a short name", trigger(url="http://lfarm-coordinator:8080/api/v1/demand")),
        ("a value for all", lambda spec: spec["triggers"][0].update(metricType="Value"))):
    on_scaler(f"searchers: {what_}", change_, "lfarm-searcher")
on_worker(SCALERS, "replicas of autoscaled searchers",
          lambda each: each["spec"].update(replicas=1), "lfarm-searcher")
on_worker("keys_come_from_their_secret", "a searcher with a key elsewhere",
          lambda each: argument(main_container(each), "--key", "/tmp/searcher.key"),
          "lfarm-searcher")
on_worker("ports_match", "a searcher that asks the farm's port",
          lambda each: argument(main_container(each), "--coordinator",
                                "tcp://lfarm-coordinator:7171"), "lfarm-searcher")
on_worker("workers_give_way", "a searcher as important as the coordinator",
          lambda each: pod(each).update(priorityClassName="lfarm-coordinator"), "lfarm-searcher")

NETWORK = "network_has_only_the_needed_openings"
for name_ in ("lfarm-searcher", "lfarm-coordinator-searchers"):
    dropped(NETWORK, "NetworkPolicy", name_, "everything")
dropped(NETWORK, "NetworkPolicy", "lfarm-prometheus", "everything")
dropped(NETWORK, "NetworkPolicy", "lfarm-keda-searchers", "searchers")
dropped(NETWORK, "NetworkPolicy", "lfarm-coordinator-objects", "objects")


@mutation(NETWORK, "an autoscaler that nobody lets in", "everything")
def _(objects):
    for name in ("lfarm-keda", "lfarm-keda-searchers"):
        drop("NetworkPolicy", name)(objects)


def on_opening(what, change, name="lfarm-keda"):
    add(NETWORK, what, lambda objects: change(spec_of(objects, "NetworkPolicy", name)))


on_opening("all of the autoscaler's namespace",
           lambda spec: spec["ingress"][0].update({"from": [{"namespaceSelector": {}}]}))
on_opening("the autoscaler reaches every port", lambda spec: spec["ingress"][0].pop("ports"))
on_opening("the autoscaler reaches workers",
           lambda spec: spec["podSelector"]["matchLabels"].pop("app.kubernetes.io/component"))
on_opening("Prometheus reaches every port", lambda spec: spec["ingress"][0].pop("ports"),
           "lfarm-prometheus")


def annotations(each):
    return each["spec"]["template"]["metadata"]["annotations"]


on_worker(SCRAPING, "another port", lambda each: annotations(each).update(
    {"prometheus.io/port": "9090"}))
on_worker(SCRAPING, "no path", lambda each: annotations(each).pop("prometheus.io/path"))
on_worker(SCRAPING, "not scraped", lambda each: [
    annotations(each).pop(key) for key in list(annotations(each)) if key.startswith("prom")])
on_worker("workers_have_a_deletion_cost", "annotations that took the cost's place",
          lambda each: annotations(each).pop("controller.kubernetes.io/pod-deletion-cost"))


def on_alert(what, change):
    add(ALERTS, what, lambda objects: change(
        objects.kind("PrometheusRule")[0]["spec"]["groups"][0]["rules"]))


on_alert("an alert without a runbook", lambda rules: rules[0]["annotations"].pop("runbook"))
on_alert("an alert that the manual does not know", lambda rules: rules[0]["annotations"].update(
    runbook="docs/operations.md#lfarmother"))
on_alert("no severity", lambda rules: rules[0]["labels"].clear())
on_alert("no summary", lambda rules: rules[0]["annotations"].pop("summary"))
on_alert("no time", lambda rules: rules[0].pop("for"))
on_alert("the same alert twice", lambda rules: rules.append(rules[0]))
on_alert("half an expression", lambda rules: rules[0].update(expr="absent(lfarm_info"))


# The token of workers that say how busy they are.
TOKENS = "tokens_are_for_those_who_need_them"
RIGHTS = "rights_are_the_least"
on_worker(TOKENS, "no token", lambda each: pod(each)["volumes"].pop())
on_worker(TOKENS, "a token for nothing", lambda each: argument(main_container(each), "--pod", None))
on_worker(TOKENS, "a token for the init container", lambda each: pod(each)["initContainers"][0][
    "volumeMounts"].append(main_container(each)["volumeMounts"][-1]))
on_worker(TOKENS, "a token for ever", lambda each: pod(each)["volumes"][-1]["projected"]["sources"][
    0]["serviceAccountToken"].update(expirationSeconds=10**6))
for kind_, name_ in (("Role", "lfarm-worker"), ("RoleBinding", "lfarm-worker"),
                     ("ValidatingAdmissionPolicy", "lfarm-workers-annotate-themselves"),
                     ("ValidatingAdmissionPolicyBinding", "lfarm-workers-annotate-themselves"),
                     ("ServiceAccount", "lfarm-worker")):
    dropped(RIGHTS, kind_, name_, "everything")
dropped(NETWORK, "NetworkPolicy", "lfarm-worker-api", "everything")


def on_object(what, kind, name, change):
    add(RIGHTS, what, lambda objects: change(objects.named(kind, name)))


on_object("the right to delete pods", "Role", "lfarm-worker",
          lambda each: each["rules"][0]["verbs"].append("delete"))
on_object("the right to patch secrets", "Role", "lfarm-worker",
          lambda each: each["rules"][0]["resources"].append("secrets"))
on_object("a binding to a role of the cluster", "RoleBinding", "lfarm-worker",
          lambda each: each["roleRef"].update(kind="ClusterRole", name="edit"))
on_object("rights for the coordinator", "RoleBinding", "lfarm-worker",
          lambda each: each["subjects"][0].update(name="lfarm-coordinator"))


def on_admission(what, change):
    on_object(what, "ValidatingAdmissionPolicy", "lfarm-workers-annotate-themselves",
              lambda each: change(each["spec"]))


on_admission("a policy that lets through what it cannot judge",
             lambda spec: spec.update(failurePolicy="Ignore"))
on_admission("a policy on somebody else", lambda spec: spec["matchConditions"][0].update(
    expression="request.userInfo.username == 'system:serviceaccount:default:lfarm-worker'"))
for index_ in range(2):
    on_admission(f"a policy without its check {index_}",
                 lambda spec, index=index_: spec["validations"].pop(index))
add(NETWORK, "workers reach the world by address",
    lambda objects: spec_of(objects, "NetworkPolicy", "lfarm-worker-api")["egress"][0]["to"][0][
        "ipBlock"].update(cidr="0.0.0.0/0"))


# Several coordinators.
TURNS = "coordinators_take_turns"


def on_coordinator(what, change, policy=TURNS):
    add(policy, what, lambda objects: change(objects.coordinators()[0]), "ha")


add(TURNS, "two coordinators that know nothing of each other",
    lambda objects: objects.coordinators()[0]["spec"].update(replicas=2), "dev")
for flag_ in ("--remote", "--identity"):
    on_coordinator(f"no {flag_}", lambda each, flag=flag_: argument(
        main_container(each), flag, None))
on_coordinator("another lease", lambda each: argument(main_container(each), "--lease", "other"))
on_coordinator("another store", lambda each: argument(
    main_container(each), "--remote", "redis://other:6379"))
for field_ in ("podManagementPolicy", "updateStrategy"):
    on_coordinator(f"no {field_}", lambda each, field=field_: each["spec"].pop(field))
on_coordinator("no token", lambda each: pod(each)["volumes"].pop(), TOKENS)
add(TURNS, "a budget that counts those who wait",
    lambda objects: spec_of(objects, "PodDisruptionBudget", "lfarm-coordinator").update(
        maxUnavailable=1), "ha")
add(RIGHTS, "every lease", lambda objects: objects.named("Role", "lfarm-coordinator")["rules"][
    1].pop("resourceNames"), "ha")
dropped(RIGHTS, "RoleBinding", "lfarm-coordinator", "ha")
dropped(NETWORK, "NetworkPolicy", "lfarm-coordinator-out", "ha")
SHARDS = "coordinators_share_by_shards"
add(SHARDS, "one more coordinator than workers know",
    lambda objects: objects.coordinators()[0]["spec"].update(replicas=4), "sharded")
for flag_ in ("--remote", "--identity", "--advertise"):
    add(SHARDS, f"no {flag_}", lambda objects, flag=flag_: argument(
        main_container(objects.coordinators()[0]), flag, None), "sharded")
add(SHARDS, "a worker of one coordinator", lambda objects: argument(
    main_container(objects.workers()[0]), "--farm", "tcp://lfarm-coordinator:7171"), "sharded")
for index_, whom_ in enumerate(("the API", "the store", "DNS")):
    add(NETWORK, f"no way to {whom_}", lambda objects, index=index_: spec_of(
        objects, "NetworkPolicy", "lfarm-coordinator-out")["egress"].pop(index), "ha")
