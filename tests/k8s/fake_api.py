"""As much of a cluster's API as lfarm uses: pods' annotations and leases, over TLS, for one token."""

import http.server
import json
import pathlib
import re
import secrets
import shutil
import ssl
import subprocess
import threading
import unittest


class FakeApi:
    """Serves until stop(). `files`: what a kubelet would project into a pod for it."""

    def __init__(self, folder, namespace):
        if shutil.which("openssl") is None:
            raise unittest.SkipTest("no openssl here")
        folder = pathlib.Path(folder)
        folder.mkdir()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=cluster", "-addext",
             "subjectAltName=IP:127.0.0.1", "-keyout", folder / "key.pem", "-out",
             folder / "ca.crt"], check=True, capture_output=True)
        self.namespace, self.token = namespace, secrets.token_hex(16)
        self.files = {"token": self.token, "namespace": namespace,
                      "ca.crt": (folder / "ca.crt").read_text(encoding="utf-8")}
        self.annotations, self.leases, self.refused = {}, {}, 0
        self.lock = threading.Lock()
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "ca.crt", folder / "key.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True,
                                                  do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def environment(self):
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1",
                "KUBERNETES_SERVICE_PORT": str(self._server.server_address[1])}

    def stop(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def holder(self, lease):
        with self.lock:
            return self.leases.get(lease, {}).get("spec", {}).get("holderIdentity", "")

    def answer(self, method, path, body):
        """Status and JSON. Called with the lock held."""
        space = f"/namespaces/{self.namespace}"
        found = re.fullmatch(rf"/api/v1{space}/pods/([\w-]+)", path)
        if found and method == "PATCH":
            changed = body["metadata"]["annotations"]
            self.annotations.setdefault(found[1], []).append(changed)
            return 200, body
        found = re.fullmatch(rf"/apis/coordination.k8s.io/v1{space}/leases(?:/([\w-]+))?", path)
        if not found:
            return 404, {"message": "nothing is here"}
        name = found[1] or body["metadata"]["name"]
        there = self.leases.get(name)
        if method == "GET":
            return (200, there) if there else (404, {"message": "no such lease"})
        if method == "POST" and there is None:
            version = 1
        elif method == "PUT" and there is not None and (
                body["metadata"].get("resourceVersion") == there["metadata"]["resourceVersion"]):
            version = int(there["metadata"]["resourceVersion"]) + 1
        else:
            return 409, {"message": "somebody else was faster"}
        body["metadata"]["resourceVersion"] = str(version)
        self.leases[name] = body
        return 200, body

    def _handler(self):
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 60

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with api.lock:
                    if self.headers.get("Authorization") != f"Bearer {api.token}":
                        api.refused += 1
                        status, reply = 401, {"message": "who are you?"}
                    else:
                        status, reply = api.answer(self.command, self.path,
                                                   json.loads(body) if body else None)
                    text = json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PATCH = serve

            def log_message(self, *arguments):
                pass

        return Handler
