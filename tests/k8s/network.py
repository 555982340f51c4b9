"""Which connections the network policies permit, as a plugin that enforces them decides it."""

import ipaddress

import manifests


class Peer:
    """A pod: the labels of its own and of its namespace, and its ports by name. Or an address
    outside of the cluster's pods."""

    def __init__(self, labels, namespace=None, ports=None, address=None):
        self.labels = labels
        self.namespace = namespace  # None: the farm's own
        self.ports = ports or {}
        self.address = address and ipaddress.ip_address(address)


def of_workload(workload):
    ports = {port["name"]: port["containerPort"]
             for container in manifests.pod(workload)["containers"]
             for port in container.get("ports", [])}
    return Peer(manifests.labels(workload), None, ports)


def permits(objects, source, target, port, protocol="TCP"):
    """Whether a connection passes the policies at both of its ends."""
    return (_direction(objects, "Egress", source, target, target, port, protocol) and
            _direction(objects, "Ingress", target, source, target, port, protocol))


def _direction(objects, direction, owner, other, target, port, protocol):
    if owner.namespace is not None or owner.address is not None:
        return True  # not the farm's to decide
    rules, peers = ("ingress", "from") if direction == "Ingress" else ("egress", "to")
    policies = [policy["spec"] for policy in objects.kind("NetworkPolicy")
                if direction in policy["spec"]["policyTypes"] and
                manifests.matches(policy["spec"]["podSelector"], owner.labels)]
    if not policies:
        return True
    return any(_takes_peer(rule.get(peers), other) and
               _takes_port(rule.get("ports"), target, port, protocol)
               for policy in policies for rule in policy.get(rules) or [])


def _takes_peer(peers, other):
    if not peers:
        return True
    return any(_is_peer(peer, other) for peer in peers)


def _is_peer(peer, other):
    if "ipBlock" in peer or other.address is not None:
        return (other.address is not None and "ipBlock" in peer and
                other.address in ipaddress.ip_network(peer["ipBlock"]["cidr"]))
    if "namespaceSelector" in peer:
        if not manifests.matches(peer["namespaceSelector"] or {}, other.namespace or {}):
            return False
    elif other.namespace is not None:
        return False
    return manifests.matches(peer.get("podSelector") or {}, other.labels)


def _takes_port(ports, target, port, protocol):
    if not ports:
        return True
    return any(each.get("protocol", "TCP") == protocol and
               target.ports.get(each["port"], each["port"]) == port for each in ports)
