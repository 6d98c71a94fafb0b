"""What strangers at the control server's port cost: `python tests/benchmarks/control_connections.py`, on loopback only.

10,000 connections without a token, half of them after a TLS handshake, while a client with the token looks. The bar: the
server's process grows by 20 MiB at most. Takes a minute.
"""

import http.client
import json
import multiprocessing
import resource
import socket
import ssl
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.cluster.certificates import certificate
from support.drivers.fake_driver import ScriptedJob

CONNECTIONS = 10_000
BAR_MIB = 20


def serve(pipe, files):
    """Serve in a process of its own, and say on demand how large it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with ScriptedJob(ssl_context=context) as job:
        pipe.send((job.server.url, job.token))
        while pipe.recv():
            status = Path("/proc/self/status").read_text()
            sizes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")}
            pipe.send((int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024, threading.active_count()))


def main():
    """Measure; return 1 when the bar is missed."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    ours, theirs = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(theirs, certificate(Path(folder), "a"))
        )
        process.start()
        url, token = ours.recv()
        place, unchecked = urlsplit(url), ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE

        def look():
            began_s = time.monotonic()
            one = http.client.HTTPSConnection(place.hostname, place.port, timeout=20, context=unchecked)
            one.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {token}"})
            assert one.getresponse().status == 200
            one.close()
            return time.monotonic() - began_s

        def size():
            ours.send(True)
            return ours.recv()

        for _ in range(20):
            look()
        before, crowd, looks, failed = size(), [], [], 0
        began_s = time.monotonic()
        for number in range(CONNECTIONS):
            try:
                one = socket.create_connection((place.hostname, place.port), timeout=20)
                crowd.append(unchecked.wrap_socket(one) if number % 2 else one)
            except OSError:
                failed += 1
            if number % 500 == 499:
                looks.append(look())
        after = size()
        figures = {
            "connections": CONNECTIONS, "refused or ended in the handshake": failed, "seconds": round(time.monotonic() - began_s, 1),
            "threads at the end": after[2], "RSS before MiB": round(before[0], 1), "RSS after MiB": round(after[0], 1),
            "growth of the peak MiB": round(after[1] - before[0], 1), "longest look meanwhile s": round(max(looks), 3),
        }  # fmt: skip
        print(json.dumps(figures, indent=2))
        ours.send(False)
        process.join(10)
    return int(after[1] - before[0] > BAR_MIB)


if __name__ == "__main__":
    sys.exit(main())
