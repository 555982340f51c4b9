"""What makes the manifests good citizens of a cluster: functions from objects to what is wrong."""

import re

import network
from manifests import (MADE_OUTSIDE, ROOT, all_containers, component, environment, expand, flags,
                       labels, main_container, matches, pod, program, sources, title)

POLICIES = {}
NAME = "app.kubernetes.io/name"
# Of the one who runs the farm.
STORE = "lfarm-store"
IMAGES = {"lfarm-coordinator", "lfarm-worker-cpu", "lfarm-worker-cuda"}
CLUSTER_WIDE = {"Namespace", "PriorityClass", "ValidatingAdmissionPolicy",
                "ValidatingAdmissionPolicyBinding"}


def policy(function):
    POLICIES[function.__name__] = function
    return function


def constant(path, name):
    """The number that a C++ source gives a name."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return int(re.search(rf"\b{name} = ([\d']+)", text)[1].replace("'", ""))


def seconds_of_hook(container):
    command = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", [])
    return int(command[1]) if command and command[0].endswith("sleep") else 0


def port_of(address):
    return int(address.rsplit(":", 1)[1])


@policy
def names_resolve(objects):
    for each in objects.workloads():
        spec = pod(each)
        wanted = [("ServiceAccount", spec.get("serviceAccountName")),
                  ("PriorityClass", spec.get("priorityClassName"))]
        if each["kind"] == "StatefulSet":
            wanted.append(("Service", each["spec"]["serviceName"]))
        for kind, name in wanted:
            if objects.named(kind, name) is None:
                yield f"{title(each)}: no {kind} {name}"
        for volume in spec.get("volumes", []):
            if "secret" in volume:
                yield from _outside(objects, each, "Secret", volume["secret"]["secretName"], [])
            if "configMap" in volume:
                keys = [item["key"] for item in volume["configMap"].get("items", [])]
                yield from _outside(objects, each, "ConfigMap", volume["configMap"]["name"], keys)
        for container in all_containers(each):
            for kind, name in sources(container):
                yield from _outside(objects, each, kind, name, [])
            for entry in container.get("env", []):
                key = entry.get("valueFrom", {}).get("configMapKeyRef")
                if key:
                    yield from _outside(objects, each, "ConfigMap", key["name"], [key["key"]])
            yield from _mounts(each, container)
            yield from _references(objects, each, container)


def _outside(objects, each, kind, name, keys):
    made = objects.named(kind, name)
    there = set(made["data"]) if made else MADE_OUTSIDE.get((kind, name))
    if there is None:
        yield f"{title(each)}: nobody makes {kind} {name}"
    for key in keys:
        if there is not None and key not in there:
            yield f"{title(each)}: {kind} {name} has no {key}"


def _mounts(each, container):
    volumes = {volume["name"] for volume in pod(each).get("volumes", [])}
    volumes |= {claim["metadata"]["name"] for claim in each["spec"].get("volumeClaimTemplates", [])}
    for mount in container.get("volumeMounts", []):
        if mount["name"] not in volumes:
            yield f"{title(each)}: no volume {mount['name']}"


def _references(objects, each, container):
    """$(NAME) in arguments, and the files that they name."""
    values = environment(objects, container)
    mounts = {mount["mountPath"] for mount in container.get("volumeMounts", [])}
    for argument in container.get("args", []) + container["command"][1:]:
        for name in re.findall(r"\$\(([A-Za-z_]\w*)\)", argument):
            if name not in values:
                yield f"{title(each)}: {argument} names a variable that is not set"
        path = re.search(r"(?:^|=)(/(?:var|etc|run)/[^ ]*)$", argument)
        if path and not any((path[1] + "/").startswith(mount + "/") for mount in mounts):
            yield f"{title(each)}: {argument} is on no mounted volume"


def _has_mount(container, path):
    return any(mount["mountPath"] == path for mount in container["volumeMounts"])


@policy
def keys_come_from_their_secret(objects):
    """The init container copies, with a mode that lfarm accepts, files that the Secret has; for a
    worker one of them, and the worker's own container does not see the others."""
    for each in objects.workloads():
        first = pod(each).get("initContainers", [{}])[0]
        command = first.get("command", [])
        own = flags(objects, main_container(each)).get("--key")
        if first.get("image") != main_container(each)["image"]:
            yield f"{title(each)}: two images to pull"
        if each in objects.workers() + objects.searchers():
            if command[:2] != ["/usr/bin/lfarm-worker", "take-key"] or command[3:] != [own]:
                yield f"{title(each)}: takes no key of its own"
            elif not _has_mount(first, command[2]) or _has_mount(
                    main_container(each), command[2]):
                yield f"{title(each)}: the workers' keys are for its init container alone"
            continue
        if command[:3] != ["/usr/bin/install", "-m", "0600"]:
            yield f"{title(each)}: keys are not copied to files that only their owner reads"
            continue
        secret = next(volume["secret"] for volume in pod(each)["volumes"] if "secret" in volume)
        copied = {path.rsplit("/", 1)[1] for path in command[5:]}
        if copied != _files_of(secret):
            yield f"{title(each)}: copies {sorted(copied)} of Secret {secret['secretName']}"
        if own and own != f"{command[4]}/{own.rsplit('/', 1)[1]}":
            yield f"{title(each)}: {own} is not where the keys are copied to"


def _files_of(secret):
    """Of a pod's volume."""
    if "items" in secret:
        return {item["path"] for item in secret["items"]}
    return MADE_OUTSIDE[("Secret", secret["secretName"])]


@policy
def signing_keys_are_the_signers(objects):
    """Where a coordinator asks a signer, only that one and the container that prepares its key see
    any of the Secret, or what was copied of it; the socket is all that they share."""
    for each in objects.coordinators():
        its = flags(objects, main_container(each))
        signers = [one for one in pod(each)["containers"]
                   if flags(objects, one).get("--role") == "sign"]
        if not signers:
            if "--signer" in its:
                yield f"{title(each)}: nobody signs for it"
            continue
        signer = signers[0]
        if flags(objects, signer)["--socket"] != its.get("--signer"):
            yield f"{title(each)}: does not ask its signer"
        secrets = {volume["name"] for volume in pod(each)["volumes"]
                   if "signing.key" in _files_of(volume.get("secret", {"items": []}))}
        key = flags(objects, signer)["--key"].rsplit("/", 1)[0]
        secrets |= {mount["name"] for mount in signer["volumeMounts"] if mount["mountPath"] == key}
        if len(secrets) != 2:
            yield f"{title(each)}: its signer's key is not copied from a Secret"
        for container in all_containers(each):
            mounted = secrets & {mount["name"] for mount in container["volumeMounts"]}
            if mounted and not container["name"].startswith("signer"):
                yield f"{title(each)}, {container['name']}: sees {sorted(mounted)}"


@policy
def selectors_match(objects):
    templates = [labels(each) for each in objects.workloads()]
    for each in objects:
        for what, selector in _selectors(each):
            if NAME not in selector.get("matchLabels", {}):
                yield f"{title(each)}: {what} may take foreign pods"
            if not any(matches(selector, its) for its in templates):
                yield f"{title(each)}: {what} matches no pod"
        if each["kind"] in ("Deployment", "StatefulSet"):
            if not matches(each["spec"]["selector"], labels(each)):
                yield f"{title(each)}: does not select its own pods"
            if sum(matches(each["spec"]["selector"], its) for its in templates) != 1:
                yield f"{title(each)}: selects another workload's pods"


def _selectors(each):
    spec = each.get("spec", {})
    if each["kind"] == "Service":
        yield "the selector", {"matchLabels": spec["selector"]}
    if each["kind"] == "PodDisruptionBudget":
        yield "the selector", spec["selector"]
    if each["kind"] == "NetworkPolicy":
        yield "the podSelector", spec["podSelector"]
        for rules, peers in (("ingress", "from"), ("egress", "to")):
            for rule in spec.get(rules) or []:
                for peer in rule.get(peers) or []:
                    its = peer.get("podSelector", {}).get("matchLabels", {})
                    if "app.kubernetes.io/component" in its and "namespaceSelector" not in peer:
                        yield "a peer", peer["podSelector"]


@policy
def ports_match(objects):
    coordinators = objects.coordinators()
    for each in objects.workloads():
        container = main_container(each)
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        its = flags(objects, container)
        for flag, name in (("--listen", "farm"), ("--searchers", "search"), ("--http", "http"),
                           ("--probes", "probes")):
            if flag in its and port_of(its[flag]) != ports.get(name):
                yield f"{title(each)}: {flag}={its[flag]}, but port {name} is {ports.get(name)}"
            if flag in its and "0.0.0.0:" not in its[flag]:
                yield f"{title(each)}: {flag}={its[flag]} is reached by nobody else"
        if "--http" not in its:
            yield f"{title(each)}: nothing answers its probes"
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            port = container.get(probe, {}).get("httpGet", {}).get("port")
            if port is not None and port not in ports:
                yield f"{title(each)}: {probe} asks port {port}, which it does not have"
        for flag, name in (("--farm", "farm"), ("--coordinator", "search")):
            for endpoint in its[flag].split(",") if flag in its else []:
                yield from _reaches_coordinator(objects, title(each), endpoint, name)
    for service in objects.kind("Service"):
        for port in service["spec"]["ports"]:
            for each in coordinators:
                names = [its["name"] for its in main_container(each)["ports"]]
                if port["targetPort"] not in names:
                    yield f"{title(service)}: pods have no port {port['targetPort']}"


def _reaches_coordinator(objects, who, endpoint, name):
    host, port = re.fullmatch(r"tcp://([^:]+):(\d+)", endpoint).groups()
    # A pod of a StatefulSet has a name before its Service's.
    for stateful in objects.coordinators():
        pod_name = rf"{stateful['metadata']['name']}-\d+\.(.+)"
        if found := re.fullmatch(pod_name, host):
            host = found.group(1)
    yield from service_reaches(objects, who, host, int(port), name)


def service_reaches(objects, who, host, port, name):
    service = objects.named("Service", host.split(".")[0])
    if service is None:
        yield f"{who}: no Service {host}"
    elif "." in host and host.split(".")[1:] != [service["metadata"]["namespace"], "svc"]:
        yield f"{who}: {host} is not in namespace {service['metadata']['namespace']}"
    elif not any(its["port"] == port and its["targetPort"] == name
                 for its in service["spec"]["ports"]):
        yield f"{who}: Service {host} does not have {name} on port {port}"


@policy
def probes_are_three(objects):
    paths = {"startupProbe": "/startupz", "readinessProbe": "/readyz", "livenessProbe": "/livez"}
    for each in objects.workloads():
        container = main_container(each)
        for probe, path in paths.items():
            if container.get(probe, {}).get("httpGet", {}).get("path") != path:
                yield f"{title(each)}: {probe} does not ask {path}"
        patience = {probe: container.get(probe, {}).get("periodSeconds", 10) *
                           container.get(probe, {}).get("failureThreshold", 3) for probe in paths}
        if patience["startupProbe"] < 60:
            yield f"{title(each)}: has less than a minute to start"
        if patience["livenessProbe"] < 30 or (
                patience["livenessProbe"] <= patience["readinessProbe"]):
            yield f"{title(each)}: is killed before it is taken out of service"


@policy
def ends_gracefully(objects):
    slack_ms = constant("coordinator/farm/types.h", "lease_slack_ms")
    for each in objects.workloads():
        container = main_container(each)
        # A searcher has nothing to bring to an end.
        if "preStop" not in container.get("lifecycle", {}) and each not in objects.searchers():
            yield f"{title(each)}: no preStop hook"
        its = flags(objects, container)
        needed = 10 + seconds_of_hook(container) + int(its.get("--drain-ms", 0)) / 1000
        if pod(each).get("terminationGracePeriodSeconds", 30) < needed:
            yield f"{title(each)}: is killed within the {needed} s that it may need to end"
        if component(each) != "worker":
            continue
        for coordinator in objects.coordinators():
            task_ms = int(flags(objects, main_container(coordinator))["--run-limit-ms"]) + slack_ms
            if int(its.get("--drain-ms", 0)) < task_ms:
                yield f"{title(each)}: a task may take {task_ms} ms, its drain is shorter"


@policy
def evictions_are_bounded_and_never_blocked(objects):
    budgets = [budget["spec"] for budget in objects.kind("PodDisruptionBudget")]
    for each in objects.workloads():
        its = [budget for budget in budgets if matches(budget["selector"], labels(each))]
        if len(its) != 1:
            yield f"{title(each)}: {len(its)} disruption budgets"
        for budget in its:
            most = budget.get("maxUnavailable")
            if most in (None, 0, "0", "0%") or "minAvailable" in budget:
                yield f"{title(each)}: its budget can keep a node from being drained"
            if budget.get("unhealthyPodEvictionPolicy") != "AlwaysAllow":
                yield f"{title(each)}: a pod that is not ready cannot be evicted"


@policy
def pods_spread(objects):
    for each in objects.workloads():
        spread = pod(each).get("topologySpreadConstraints", [])
        if not any(matches(one["labelSelector"], labels(each)) for one in spread):
            yield f"{title(each)}: nothing spreads its pods"
        if any(one["whenUnsatisfiable"] != "ScheduleAnyway" for one in spread):
            yield f"{title(each)}: pods stay away where there is one node"


@policy
def workers_give_way(objects):
    value = {each["metadata"]["name"]: each for each in objects.kind("PriorityClass")}
    first = [value[pod(each)["priorityClassName"]]["value"] for each in objects.coordinators()
             if pod(each).get("priorityClassName") in value]
    for each in objects.workers() + objects.searchers():
        its = value.get(pod(each).get("priorityClassName"))
        if its is None or its.get("preemptionPolicy") != "Never" or its["value"] >= 0:
            yield f"{title(each)}: pushes others off their nodes"
        elif not first or its["value"] >= min(first):
            yield f"{title(each)}: is as important as the coordinator"


DNS = network.Peer({"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
SCALER = network.Peer({"app": "keda-operator"}, {"kubernetes.io/metadata.name": "keda"})
PROMETHEUS = network.Peer({"app.kubernetes.io/name": "prometheus"},
                          {"kubernetes.io/metadata.name": "monitoring"})
CLIENTS = [network.Peer({"lfarm/client": "true"}), network.Peer({}, {"lfarm/clients": "true"})]
# Ports of the same names must not help them.
PORTS = {"farm": 7171, "search": 7172, "http": 8080}
SHARED_STORE = network.Peer({"lfarm/store": "true"}, None, {"redis": 6379})
OBJECT_STORE = network.Peer({"lfarm/objects": "true"}, None, {"s3": 9000})
API = network.Peer({}, address="10.96.0.1")
OUTSIDE = [network.Peer({}, address=address) for address in ("10.96.0.2", "192.0.2.7", "8.8.8.8")]
STRANGERS = [network.Peer({"app": "other"}, None, PORTS), network.Peer({}, {}, PORTS),
             network.Peer({"lfarm/client": "true"}, {"team": "other"}, PORTS),
             network.Peer({NAME: "other", "app.kubernetes.io/component": "worker"}, None, PORTS)]


@policy
def network_has_only_the_needed_openings(objects):
    """Every pair that could meet is asked for, and compared with who has to."""
    farm, search, http = 7171, 7172, 8080
    searchers = {title(each): network.of_workload(each) for each in objects.searchers()}
    workers = {title(each): network.of_workload(each) for each in objects.workers()}
    coordinators = {title(each): network.of_workload(each) for each in objects.coordinators()}
    scrapes = any("prometheus.io/scrape" in each["spec"]["template"]["metadata"].get(
        "annotations", {}) for each in objects.workloads())
    scales = bool(objects.kind("ScaledObject"))
    shares = {title(each) for each in objects.coordinators()
              if "--remote" in flags(objects, main_container(each))}
    puts = {title(each) for each in objects.coordinators()
            if "--objects" in flags(objects, main_container(each))}
    asks_api = {title(each) for each in objects.workloads() if asks_the_cluster(objects, each)}

    def expect(wanted, what, *connection):
        if network.permits(objects, *connection) != wanted:
            return [f"{what}: {'cannot connect' if wanted else 'can connect'}"]
        return []

    for name, pod_ in {**workers, **searchers, **coordinators}.items():
        serves = name in coordinators
        for protocol in ("UDP", "TCP"):
            yield from expect(not serves or name in shares, f"{name} to DNS", pod_, DNS, 53, protocol)
        yield from expect(False, f"{name} to DNS, another port", pod_, DNS, 443)
        yield from expect(name in asks_api, f"{name} to the cluster's API", pod_, API, 443)
        yield from expect(False, f"{name} to the cluster's API, another port", pod_, API, 22)
        yield from expect(name in shares, f"{name} to the store", pod_, SHARED_STORE, 6379)
        yield from expect(False, f"{name} to the store, another port", pod_, SHARED_STORE, 22)
        yield from expect(name in puts, f"{name} to the object store", pod_, OBJECT_STORE, 9000)
        yield from expect(False, f"{name} to the object store, another port", pod_, OBJECT_STORE, 22)
        for address in OUTSIDE:
            for port in (53, 80, 443, 6379):
                yield from expect(False, f"{name} to the world", pod_, address, port)
        for stranger in STRANGERS:
            for port in (53, 80, 443, 6379, farm, search, http):
                yield from expect(False, f"{name} to a stranger", pod_, stranger, port)
                yield from expect(False, f"a stranger to {name}", stranger, pod_, port)
        yield from expect(scrapes, f"Prometheus to {name}", PROMETHEUS, pod_, http)
        yield from expect(scales and serves, f"the autoscaler to {name}", SCALER, pod_, http)
        inside = list(workers.values()) + list(searchers.values())
        for peer in CLIENTS + [PROMETHEUS, SCALER] + inside:
            asks = peer in CLIENTS + list(workers.values())
            yield from expect(serves and asks, f"a client or worker to {name}", peer, pod_, farm)
            yield from expect(serves and peer in searchers.values(), f"a searcher to {name}", peer,
                              pod_, search)
        for peer in CLIENTS + inside:
            yield from expect(False, f"a client or worker to {name}'s HTTP", peer, pod_, http)


@policy
def pods_are_restricted(objects):
    """Kubernetes' "restricted" standard, and a root file system that nobody writes to."""
    for each in objects.workloads():
        its = pod(each)["securityContext"]
        if its.get("runAsNonRoot") is not True or its.get("runAsUser", 0) < 1000:
            yield f"{title(each)}: may run as root"
        if its.get("seccompProfile", {}).get("type") != "RuntimeDefault":
            yield f"{title(each)}: no seccomp profile"
        for field in ("hostNetwork", "hostPID", "hostIPC"):
            if pod(each).get(field):
                yield f"{title(each)}: shares the node's {field[4:]}"
        if any("hostPath" in volume for volume in pod(each).get("volumes", [])):
            yield f"{title(each)}: mounts the node's files"
        for container in all_containers(each):
            context = container.get("securityContext", {})
            who = f"{title(each)}, {container['name']}"
            if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
                yield f"{who}: may gain privileges"
            if context.get("readOnlyRootFilesystem") is not True:
                yield f"{who}: may write into its image"
            capabilities = context.get("capabilities", {})
            if capabilities.get("drop") != ["ALL"] or capabilities.get("add"):
                yield f"{who}: has capabilities"
            if {"runAsUser", "runAsNonRoot", "seccompProfile"} & set(context):
                yield f"{who}: sets aside what its pod says"
    for each in objects.kind("Namespace"):
        if each["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") != "restricted":
            yield f"{title(each)}: does not enforce the restricted standard"


def asks_the_cluster(objects, each):
    return bool({"--pod", "--lease"} & set(flags(objects, main_container(each))))


# What each account may do at most: resource, verbs, and whether the objects have to be named.
RIGHTS = {"lfarm-worker": {("", "pods"): {"patch"}},
          "lfarm-coordinator": {("coordination.k8s.io", "leases"): {"create", "get", "update"}}}
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


@policy
def tokens_are_for_those_who_need_them(objects):
    for each in objects.workloads():
        if pod(each).get("automountServiceAccountToken") is not False:
            yield f"{title(each)}: every container gets a token"
        if pod(each).get("enableServiceLinks") is not False:
            yield f"{title(each)}: gets variables of all the namespace's services"
        tokens = {volume["name"] for volume in pod(each)["volumes"]
                  for source in volume.get("projected", {}).get("sources", [])
                  if source.get("serviceAccountToken", {}).get("expirationSeconds", 99999) <= 3600}
        if bool(tokens) != asks_the_cluster(objects, each):
            yield f"{title(each)}: {'has' if tokens else 'lacks'} a token"
        for container in all_containers(each):
            has = {mount["mountPath"] for mount in container["volumeMounts"]
                   if mount["name"] in tokens or mount["mountPath"] == ACCOUNT}
            wanted = {ACCOUNT} if tokens and container is main_container(each) else set()
            if has != wanted:
                yield f"{title(each)}, {container['name']}: mounts tokens at {sorted(has)}"
    for each in objects.kind("ServiceAccount"):
        if each.get("automountServiceAccountToken") is not False:
            yield f"{title(each)}: mounts its token"


@policy
def rights_are_the_least(objects):
    bound = {}
    for binding in objects.kind("RoleBinding", "ClusterRoleBinding"):
        role = objects.named("Role", binding["roleRef"]["name"])
        if binding["kind"] != "RoleBinding" or role is None:
            yield f"{title(binding)}: binds something else than a role of here"
            continue
        for subject in binding["subjects"]:
            bound[subject["name"]] = role
            if objects.named(subject["kind"], subject["name"]) is None or (
                    subject["namespace"] != role["metadata"]["namespace"]):
                yield f"{title(binding)}: binds {subject['name']}, whom nobody knows"
    needed = {pod(each)["serviceAccountName"] for each in objects.workloads()
              if asks_the_cluster(objects, each)}
    if set(bound) != needed:
        yield f"{sorted(set(bound) ^ needed)}: rights without need, or need without rights"
    for account, role in bound.items():
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    excess = set(rule["verbs"]) - RIGHTS[account].get((group, resource), set())
                    if excess:
                        yield f"{title(role)}: may {sorted(excess)} {resource}"
            # What is made new has no name yet when rights are looked up.
            if "create" not in rule["verbs"] and "leases" in rule["resources"] and (
                    not rule.get("resourceNames")):
                yield f"{title(role)}: may change other leases"
    if "lfarm-worker" in bound:
        yield from _pods_are_narrowed(objects, bound["lfarm-worker"]["metadata"]["namespace"])


def _pods_are_narrowed(objects, namespace):
    """The right to patch pods without the admission policy would be the right to everything."""
    bindings = [each["spec"] for each in objects.kind("ValidatingAdmissionPolicyBinding")]
    for each in objects.kind("ValidatingAdmissionPolicy"):
        spec = each["spec"]
        conditions = [one["expression"] for one in spec["matchConditions"]]
        text = " ".join(one["expression"] for one in spec["validations"])
        if ({"policyName": each["metadata"]["name"], "validationActions": ["Deny"]} in bindings and
                spec["failurePolicy"] == "Fail" and
                conditions == ["request.userInfo.username == "
                               f"'system:serviceaccount:{namespace}:lfarm-worker'"] and
                "UPDATE" in spec["matchConstraints"]["resourceRules"][0]["operations"] and
                "object.metadata.name in request.userInfo.extra" in text and
                "object.spec == oldObject.spec" in text and
                "object.metadata.labels == oldObject.metadata.labels" in text and
                "object.metadata.annotations.all(" in text):
            return
    yield "workers may change every pod of the namespace"


@policy
def writable_paths_are_bounded_volumes(objects):
    for each in objects.workloads():
        volumes = {volume["name"]: volume for volume in pod(each)["volumes"]}
        claims = {claim["metadata"]["name"] for claim in
                  each["spec"].get("volumeClaimTemplates", [])}
        container = main_container(each)
        writable = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]
                    if not mount.get("readOnly")}
        state = flags(objects, container).get("--state")
        for path in ("/tmp", state):
            if path is not None and path not in writable:
                yield f"{title(each)}: cannot write to {path}"
        for path, name in writable.items():
            if name not in claims and "sizeLimit" not in volumes[name].get("emptyDir", {}):
                yield f"{title(each)}: {path} may fill the node's disk"
        if component(each) == "coordinator" and writable.get(state) not in claims:
            yield f"{title(each)}: forgets everything when its pod ends"


@policy
def stores_fit_their_volume(objects):
    for each in objects.coordinators():
        kept = int(flags(objects, main_container(each))["--store-bytes"])
        claim = each["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
        there = int(re.fullmatch(r"(\d+)Gi", claim)[1]) << 30
        # Logs, journals and what RocksDB has yet to compact come on top.
        if kept == 0 or kept * 1.2 > there:
            yield f"{title(each)}: a store of {kept} bytes outgrows a volume of {claim}"


@policy
def containers_have_requests_and_limits(objects):
    for each in objects.workloads():
        for container in all_containers(each):
            resources = container.get("resources", {})
            for side in ("requests", "limits"):
                missing = {"cpu", "memory", "ephemeral-storage"} - set(resources.get(side, {}))
                if missing:
                    yield f"{title(each)}, {container['name']}: no {side} for {sorted(missing)}"
        if component(each) == "worker":
            resources = main_container(each).get("resources", {})
            cpu = str(resources.get("limits", {}).get("cpu"))
            if resources.get("limits") != resources.get("requests") or not cpu.isdigit():
                yield f"{title(each)}: shares processors that it measures on"


@policy
def workers_have_a_deletion_cost(objects):
    for each in objects.workers():
        annotations = each["spec"]["template"]["metadata"].get("annotations", {})
        if not annotations.get("controller.kubernetes.io/pod-deletion-cost", "").isdigit():
            yield f"{title(each)}: nothing says which pod goes first"


@policy
def images_are_named_exactly(objects):
    for each in objects.workloads():
        for container in all_containers(each):
            name, _, tag = container["image"].partition(":")
            if name not in IMAGES:
                yield f"{title(each)}: nobody builds {container['image']}"
            if tag in ("", "latest"):
                yield f"{title(each)}: {container['image']} may be another one tomorrow"
        its = main_container(each)
        device = flags(objects, its).get("--device")
        wanted = f"lfarm-worker-{device}" if device else program(its)
        if its["image"].partition(":")[0] != wanted:
            yield f"{title(each)}: {its['image']} is not for {program(its)} --device={device}"


@policy
def coordinators_take_turns(objects):
    """One serves. Where several wait they are not ready, and nothing may wait for them."""
    for each in objects.coordinators():
        spec, its = each["spec"], flags(objects, main_container(each))
        if "--lease" not in its:
            if spec["replicas"] != 1 and "--shards" not in its:
                yield f"{title(each)}: {spec['replicas']} coordinators, and nobody says which serves"
            continue
        remote = re.fullmatch(r"redis://([\w-]+):(\d+)", its.get("--remote", ""))
        if remote is None or remote.groups() != (STORE, "6379"):
            yield f"{title(each)}: the next coordinator knows none of the plans"
        if its.get("--identity") != "$(POD_NAME)" or "POD_NAME" not in environment(
                objects, main_container(each)):
            yield f"{title(each)}: two may go by one name"
        if spec.get("podManagementPolicy") != "Parallel":
            yield f"{title(each)}: the second starts when the first is ready, which may be never"
        if spec.get("updateStrategy", {}).get("type") != "OnDelete":
            yield f"{title(each)}: an update waits for one that waits"
        for budget in objects.kind("PodDisruptionBudget"):
            if matches(budget["spec"]["selector"], labels(each)) and (
                    budget["spec"].get("maxUnavailable") != "100%"):
                yield f"{title(budget)}: the one that serves is never evicted"
        names = {name for role in objects.kind("Role") for rule in role["rules"]
                 for name in rule.get("resourceNames", [])}
        if its["--lease"] not in names:
            yield f"{title(each)}: may not change the lease {its['--lease']}"


@policy
def objects_share_a_namespace(objects):
    names = [each["metadata"]["name"] for each in objects.kind("Namespace")]
    for each in objects:
        if each["kind"] not in CLUSTER_WIDE and [each["metadata"].get("namespace")] != names:
            yield f"{title(each)}: is not in the farm's namespace"
        if each["metadata"].get("labels", {}).get(NAME) != "lfarm":
            yield f"{title(each)}: does not say that it is lfarm's"
