"""Ways of making the manifests worse: each takes one good property away, and names the policy that
has to notice it."""

from manifests import Objects, all_containers, labels, main_container, pod

MUTATIONS = []  # (combination, policy, what is done, function that changes the objects)


def mutation(policy, what, combination="dev"):
    def remember(function):
        MUTATIONS.append((combination, policy, what, function))
        return function
    return remember


def on_pods(policy, what, change, combination="dev"):
    """Does `change(pod spec)` to each workload in turn, as a mutation of its own."""
    for kind in ("StatefulSet", "Deployment"):
        def mutate(objects, kind=kind):
            change(pod(objects.kind(kind)[0]))
        MUTATIONS.append((combination, policy, f"{what} ({kind})", mutate))


def on_containers(policy, what, change):
    on_pods(policy, what, lambda spec: change(spec["containers"][0]))


def drop(kind, name):
    def mutate(objects):
        objects[:] = Objects(each for each in objects
                             if (each["kind"], each["metadata"]["name"]) != (kind, name))
    return mutate


def dropped(policy, kind, name, combination="dev"):
    MUTATIONS.append((combination, policy, f"without {kind} {name}", drop(kind, name)))


def argument(container, flag, value):
    container["args"] = [each for each in container["args"] if not each.startswith(flag + "=")]
    if value is not None:
        container["args"].append(f"{flag}={value}")


def spec_of(objects, kind, name):
    return objects.named(kind, name)["spec"]


# Names.
for kind_, name_ in (("ServiceAccount", "lfarm-worker"), ("PriorityClass", "lfarm-worker"),
                     ("Service", "lfarm-coordinator-pods")):
    dropped("names_resolve", kind_, name_)
on_pods("names_resolve", "a volume is gone", lambda spec: spec["volumes"].pop())
on_pods("names_resolve", "a Secret that nobody makes",
        lambda spec: spec["volumes"][0]["secret"].update(secretName="other"))
on_containers("names_resolve", "a variable that is not set",
              lambda each: each["args"].append("--name=$(NOBODY)"))
on_containers("names_resolve", "state that is mounted nowhere",
              lambda each: argument(each, "--state", "/var/other"))


@mutation("names_resolve", "settings under another name")
def _(objects):
    main_container(objects.coordinators()[0])["envFrom"][0]["configMapRef"]["name"] = "other"


@mutation("names_resolve", "a bucket's keys that nobody makes", "objects")
def _has_no_bucket(objects):
    main_container(objects.coordinators()[0])["envFrom"][1]["secretRef"]["name"] = "other"


@mutation("names_resolve", "a bucket without a name", "objects")
def _names_no_bucket(objects):
    argument(main_container(objects.coordinators()[0]), "--objects", "$(BUCKET)")


@mutation("names_resolve", "a key that the ConfigMap does not have")
def _(objects):
    main_container(objects.workers()[0])["env"][0]["valueFrom"]["configMapKeyRef"]["key"] = "other"


on_pods("keys_come_from_their_secret", "no copy", lambda spec: spec.pop("initContainers"))
@mutation("keys_come_from_their_secret", "a copy for all to read")
def _(objects):
    pod(objects.coordinators()[0])["initContainers"][0]["command"][2] = "0640"


@mutation("keys_come_from_their_secret", "a worker that sees the other workers' keys")
def _(objects):
    spec = pod(objects.workers()[0])
    secret = spec["initContainers"][0]["volumeMounts"][1]
    main_container(objects.workers()[0])["volumeMounts"].append(secret)


on_pods("keys_come_from_their_secret", "one file less",
        lambda spec: spec["initContainers"][0]["command"].pop())
@mutation("signing_keys_are_the_signers", "a coordinator that sees the signer's Secret", "signer")
def _sees_the_signers_secret(objects):
    spec = pod(objects.coordinators()[0])
    mount = next(each for each in spec["containers"][1]["volumeMounts"]
                 if each["name"] == "signer-keys")
    spec["containers"][0]["volumeMounts"].append(mount)


@mutation("signing_keys_are_the_signers", "a coordinator with the farm's own signing key", "signer")
def _has_the_farms_signing_key(objects):
    del pod(objects.coordinators()[0])["volumes"][0]["secret"]["items"]


@mutation("signing_keys_are_the_signers", "a coordinator without its signer", "signer")
def _has_no_signer(objects):
    pod(objects.coordinators()[0])["containers"].pop()


@mutation("signing_keys_are_the_signers", "another socket", "signer")
def _asks_elsewhere(objects):
    argument(pod(objects.coordinators()[0])["containers"][1], "--socket", "/run/lfarm/other")


on_pods("keys_come_from_their_secret", "another image",
        lambda spec: spec["initContainers"][0].update(image="busybox:1"))


@mutation("keys_come_from_their_secret", "a key elsewhere")
def _(objects):
    argument(main_container(objects.workers()[0]), "--key", "/tmp/worker.key")


# Labels.
@mutation("selectors_match", "a Service for other pods")
def _(objects):
    spec_of(objects, "Service", "lfarm-coordinator")["selector"]["lfarm/x"] = "y"


@mutation("selectors_match", "a Service for foreign pods too")
def _(objects):
    spec_of(objects, "Service", "lfarm-coordinator")["selector"].pop("app.kubernetes.io/name")


@mutation("selectors_match", "a budget for nobody")
def _(objects):
    spec_of(objects, "PodDisruptionBudget", "lfarm-worker-cpu")["selector"]["matchLabels"][
        "lfarm/device"] = "tpu"


@mutation("selectors_match", "a network policy for nobody")
def _(objects):
    spec_of(objects, "NetworkPolicy", "lfarm-worker")["podSelector"]["matchLabels"][
        "app.kubernetes.io/component"] = "workers"


@mutation("selectors_match", "pods that their Deployment does not select")
def _(objects):
    labels(objects.workers()[0])["lfarm/device"] = "other"


@mutation("selectors_match", "a Deployment that takes the coordinator's pods")
def _(objects):
    objects.workers()[0]["spec"]["selector"]["matchLabels"] = {"app.kubernetes.io/name": "lfarm"}


# Ports.
@mutation("ports_match", "a coordinator on another port")
def _(objects):
    argument(main_container(objects.coordinators()[0]), "--listen", "tcp://0.0.0.0:7172")


@mutation("ports_match", "a coordinator on loopback")
def _(objects):
    argument(main_container(objects.coordinators()[0]), "--listen", "tcp://127.0.0.1:7171")


@mutation("ports_match", "a worker that looks elsewhere")
def _(objects):
    argument(main_container(objects.workers()[0]), "--farm", "tcp://coordinator:7171")


@mutation("ports_match", "a worker that takes the wrong port")
def _(objects):
    argument(main_container(objects.workers()[0]), "--farm", "tcp://lfarm-coordinator:8080")


@mutation("ports_match", "a Service to a port that pods do not have")
def _(objects):
    spec_of(objects, "Service", "lfarm-coordinator")["ports"][0]["targetPort"] = "zmq"


on_containers("ports_match", "no HTTP", lambda each: argument(each, "--http", None))
on_containers("ports_match", "HTTP on another port",
              lambda each: argument(each, "--http", "0.0.0.0:9090"))
on_containers("ports_match", "a probe of a port that is not there",
              lambda each: each["livenessProbe"]["httpGet"].update(port="web"))

# Life and death.
for probe_ in ("startupProbe", "readinessProbe", "livenessProbe"):
    on_containers("probes_are_three", f"no {probe_}", lambda each, probe=probe_: each.pop(probe))
on_containers("probes_are_three", "liveness by readiness",
              lambda each: each["livenessProbe"]["httpGet"].update(path="/readyz"))
on_containers("probes_are_three", "an impatient liveness probe",
              lambda each: each["livenessProbe"].update(failureThreshold=1))
on_containers("probes_are_three", "no time to start",
              lambda each: each["startupProbe"].update(failureThreshold=3))
on_containers("ends_gracefully", "no hook", lambda each: each.pop("lifecycle"))
on_pods("ends_gracefully", "little grace",
        lambda spec: spec.update(terminationGracePeriodSeconds=10))
on_pods("ends_gracefully", "no grace period of its own",
        lambda spec: spec["containers"][0]["lifecycle"]["preStop"]["exec"].update(
            command=["/bin/sleep", "300"]))


@mutation("ends_gracefully", "a drain shorter than a task")
def _(objects):
    argument(main_container(objects.workers()[0]), "--drain-ms", "30000")


@mutation("ends_gracefully", "tasks longer than the drain")
def _(objects):
    argument(main_container(objects.coordinators()[0]), "--run-limit-ms", "600000")


BUDGETS_ = "evictions_are_bounded_and_never_blocked"
for name_ in ("lfarm-coordinator", "lfarm-worker-cpu"):
    dropped(BUDGETS_, "PodDisruptionBudget", name_)


@mutation(BUDGETS_, "a budget that forbids every eviction")
def _(objects):
    budget = spec_of(objects, "PodDisruptionBudget", "lfarm-coordinator")
    budget.pop("maxUnavailable")
    budget["minAvailable"] = 1


@mutation(BUDGETS_, "a budget that keeps pods that are not ready")
def _(objects):
    spec_of(objects, "PodDisruptionBudget", "lfarm-worker-cpu").pop("unhealthyPodEvictionPolicy")


on_pods("pods_spread", "no spread", lambda spec: spec.pop("topologySpreadConstraints"))
on_pods("pods_spread", "a spread of other pods",
        lambda spec: spec["topologySpreadConstraints"][0]["labelSelector"].update(
            matchLabels={"app": "other"}))
on_pods("pods_spread", "a spread that one node cannot give",
        lambda spec: spec["topologySpreadConstraints"][0].update(
            whenUnsatisfiable="DoNotSchedule"))


@mutation("workers_give_way", "no class")
def _(objects):
    pod(objects.workers()[0]).pop("priorityClassName")


@mutation("workers_give_way", "a class that preempts")
def _(objects):
    objects.named("PriorityClass", "lfarm-worker").pop("preemptionPolicy")


@mutation("workers_give_way", "the coordinator's class")
def _(objects):
    pod(objects.workers()[0])["priorityClassName"] = "lfarm-coordinator"


@mutation("workers_give_way", "a coordinator that gives way as well")
def _(objects):
    objects.named("PriorityClass", "lfarm-coordinator")["value"] = -100


on_containers("containers_have_requests_and_limits", "no limits",
              lambda each: each["resources"].pop("limits"))
on_containers("containers_have_requests_and_limits", "no memory request",
              lambda each: each["resources"]["requests"].pop("memory"))
on_pods("containers_have_requests_and_limits", "an init container without limits",
        lambda spec: spec["initContainers"][0].pop("resources"))


@mutation("containers_have_requests_and_limits", "a worker that shares its processors")
def _(objects):
    main_container(objects.workers()[0])["resources"]["requests"]["cpu"] = "500m"


@mutation("workers_have_a_deletion_cost", "no annotation")
def _(objects):
    objects.workers()[0]["spec"]["template"]["metadata"].pop("annotations")


# The network.
NETWORK_ = "network_has_only_the_needed_openings"
for name_ in ("lfarm-deny", "lfarm-coordinator", "lfarm-worker"):
    dropped(NETWORK_, "NetworkPolicy", name_)


def network_mutation(what, name, change):
    MUTATIONS.append(("dev", NETWORK_, what,
                      lambda objects: change(spec_of(objects, "NetworkPolicy", name))))


network_mutation("egress is not denied", "lfarm-deny",
                 lambda spec: spec["policyTypes"].remove("Egress"))
network_mutation("ingress is not denied", "lfarm-deny",
                 lambda spec: spec["policyTypes"].remove("Ingress"))
network_mutation("everyone reaches the coordinator", "lfarm-coordinator",
                 lambda spec: spec["ingress"][0].pop("from"))
network_mutation("clients reach all ports", "lfarm-coordinator",
                 lambda spec: spec["ingress"][0].pop("ports"))
for index_, who_ in enumerate(("workers", "clients here", "clients elsewhere")):
    network_mutation(f"{who_} are not let in", "lfarm-coordinator",
                     lambda spec, index=index_: spec["ingress"][0]["from"].pop(index))
network_mutation("all namespaces are let in", "lfarm-coordinator",
                 lambda spec: spec["ingress"][0]["from"][2].update(namespaceSelector={}))
network_mutation("no DNS", "lfarm-worker", lambda spec: spec["egress"].pop())
network_mutation("no DNS over TCP", "lfarm-worker", lambda spec: spec["egress"][1]["ports"].pop())
network_mutation("workers reach every port of the DNS", "lfarm-worker",
                 lambda spec: spec["egress"][1].pop("ports"))
network_mutation("workers reach everything", "lfarm-worker", lambda spec: spec["egress"].append({}))
network_mutation("workers reach the world", "lfarm-worker",
                 lambda spec: spec["egress"][0].pop("to"))

# Rights.
SECURITY_ = "pods_are_restricted"
on_pods(SECURITY_, "root", lambda spec: spec["securityContext"].update(runAsUser=0))
on_pods(SECURITY_, "no runAsNonRoot", lambda spec: spec["securityContext"].pop("runAsNonRoot"))
on_pods(SECURITY_, "no seccomp profile", lambda spec: spec["securityContext"].pop("seccompProfile"))
on_pods(SECURITY_, "the node's network", lambda spec: spec.update(hostNetwork=True))
on_pods(SECURITY_, "the node's files",
        lambda spec: spec["volumes"].append({"name": "x", "hostPath": {"path": "/"}}))
for context_ in ("allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities"):
    for which_ in (0, -1):
        on_pods(SECURITY_, f"no {context_} ({'init' if which_ == 0 else 'main'} container)",
                lambda spec, which=which_, field=context_: (
                    spec["initContainers"] + spec["containers"])[which]["securityContext"].pop(
                        field))
on_containers(SECURITY_, "a capability", lambda each: each["securityContext"]["capabilities"].update(
    add=["SYS_ADMIN"]))
on_containers(SECURITY_, "root in one container",
              lambda each: each["securityContext"].update(runAsUser=0))


@mutation(SECURITY_, "a namespace that enforces nothing")
def _(objects):
    objects.named("Namespace", "lfarm")["metadata"]["labels"].pop(
        "pod-security.kubernetes.io/enforce")


on_pods("tokens_are_for_those_who_need_them", "a mounted token",
        lambda spec: spec.pop("automountServiceAccountToken"))
on_pods("tokens_are_for_those_who_need_them", "service links", lambda spec: spec.pop("enableServiceLinks"))


@mutation("tokens_are_for_those_who_need_them", "an account that mounts its token")
def _(objects):
    objects.named("ServiceAccount", "lfarm-worker")["automountServiceAccountToken"] = True


# Disks.
DISKS_ = "writable_paths_are_bounded_volumes"
on_containers(DISKS_, "nowhere for temporary files", lambda each: each["volumeMounts"].pop())
on_containers(DISKS_, "state that cannot be written", lambda each: [
    mount.update(readOnly=True) for mount in each["volumeMounts"] if mount["name"] == "state"])
on_pods(DISKS_, "an unbounded volume", lambda spec: spec["volumes"][-1].update(emptyDir={}))


@mutation(DISKS_, "a coordinator without a volume")
def _(objects):
    coordinator = objects.coordinators()[0]
    coordinator["spec"]["volumeClaimTemplates"].clear()
    pod(coordinator)["volumes"].append({"name": "state", "emptyDir": {"sizeLimit": "1Gi"}})


@mutation("stores_fit_their_volume", "a small volume")
def _(objects):
    objects.coordinators()[0]["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"][
        "storage"] = "8Gi"


@mutation("stores_fit_their_volume", "an unbounded store")
def _(objects):
    argument(main_container(objects.coordinators()[0]), "--store-bytes", "0")


# Images and places.
on_containers("images_are_named_exactly", "no tag",
              lambda each: each.update(image=each["image"].partition(":")[0]))
on_containers("images_are_named_exactly", "the latest",
              lambda each: each.update(image=each["image"].partition(":")[0] + ":latest"))
on_containers("images_are_named_exactly", "an image that nobody builds",
              lambda each: each.update(image="other:1"))


@mutation("images_are_named_exactly", "the other device's image")
def _(objects):
    for container in all_containers(objects.workers()[0]):
        container["image"] = "lfarm-worker-cuda:1"


@mutation("objects_share_a_namespace", "a Service elsewhere")
def _(objects):
    objects.named("Service", "lfarm-coordinator")["metadata"]["namespace"] = "default"


@mutation("objects_share_a_namespace", "no label")
def _(objects):
    objects.named("ServiceAccount", "lfarm-worker")["metadata"].pop("labels")
