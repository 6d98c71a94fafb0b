"""Measure the cost of clients without a token at the ports of driver and operator: `python tests/benchmarks/control_connections.py`.

It opens 10,000 connections, half of them after a TLS handshake, while a client with the token reads the progress. The limit: the
server's process grows by at most 20 MiB. It takes a minute. With `--flood 600` each port gets ten minutes of endless headers,
bodies and requests instead; the limit is 32 MiB. All traffic is on loopback.
"""

import argparse
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
from support.ports.clients import becomes_ready, look_with_token
from support.ports.flood import Flood
from support.ports.served import NAMES, Measured

CONNECTIONS = 10_000
BAR_MIB = 20
FLOOD_BAR_MIB = 32


def serve(pipe, files):
    """Serve in a separate process, and report its size on request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    with ScriptedJob(ssl_context=context) as job:
        pipe.send((job.server.url, job.token))
        while pipe.recv():
            status = Path("/proc/self/status").read_text()
            sizes = {line.split(":")[0]: line.split()[1] for line in status.splitlines() if line.startswith("Vm")}
            pipe.send((int(sizes["VmRSS"]) / 1024, int(sizes["VmHWM"]) / 1024, threading.active_count()))


def flooded(name, seconds):
    """Return the growth of a process in MiB, and print it."""
    with tempfile.TemporaryDirectory() as folder, Measured(name, folder) as process:
        assert becomes_ready(process.port)
        before_mib = process.size_mib()
        with Flood(process.port) as flood:
            flood.lasts(seconds)
            threads, began_s = process.threads(), time.monotonic()
            with_token = becomes_ready(process.port, look_with_token) if process.port.token else None
            took_s = time.monotonic() - began_s
        assert becomes_ready(process.port)
        growth_mib = process.size_mib("VmHWM") - before_mib
    figures = {
        "port": name, "seconds": seconds, "growth of the peak MiB": round(growth_mib, 1), "threads": threads,
        "connections": sum(flood.attempts.values()), "sent MB": flood.sent_bytes // 10**6,
        "a look with the token meanwhile": with_token and f"{took_s:.2f} s",
    }  # fmt: skip
    print(json.dumps(figures, indent=2), flush=True)
    return growth_mib


def main():
    """Measure; return 1 if the limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--flood", type=float, metavar="SECONDS", help="seconds to flood each port, instead of the connections"
    )
    parser.add_argument("--port", action="append", choices=NAMES, help="port to flood; all if none is given")
    args = parser.parse_args()
    if args.flood is not None:
        return int(max(flooded(name, args.flood) for name in args.port or NAMES) > FLOOD_BAR_MIB)
    return crowded()


def crowded():
    """Measure the connections; return 1 if the limit is exceeded."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (CONNECTIONS + 200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    parent_end, child_end = multiprocessing.Pipe()
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(child_end, certificate(Path(folder), "a"))
        )
        process.start()
        url, token = parent_end.recv()
        address, unchecked = urlsplit(url), ssl.create_default_context()
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE

        def read_progress():
            began_s = time.monotonic()
            connection = http.client.HTTPSConnection(address.hostname, address.port, timeout=20, context=unchecked)
            connection.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {token}"})
            assert connection.getresponse().status == 200
            connection.close()
            return time.monotonic() - began_s

        def size():
            parent_end.send(True)
            return parent_end.recv()

        for _ in range(20):
            read_progress()
        before, crowd, reads_s, failed = size(), [], [], 0
        began_s = time.monotonic()
        for number in range(CONNECTIONS):
            try:
                plain = socket.create_connection((address.hostname, address.port), timeout=20)
                crowd.append(unchecked.wrap_socket(plain) if number % 2 else plain)
            except OSError:
                failed += 1
            if number % 500 == 499:
                reads_s.append(read_progress())
        after = size()
        figures = {
            "connections": CONNECTIONS, "refused or ended in the handshake": failed, "seconds": round(time.monotonic() - began_s, 1),
            "threads at the end": after[2], "RSS before MiB": round(before[0], 1), "RSS after MiB": round(after[0], 1),
            "growth of the peak MiB": round(after[1] - before[0], 1), "longest look meanwhile s": round(max(reads_s), 3),
        }  # fmt: skip
        print(json.dumps(figures, indent=2))
        parent_end.send(False)
        process.join(10)
    return int(after[1] - before[0] > BAR_MIB)


if __name__ == "__main__":
    sys.exit(main())
