"""Cost of clients without a token at the ports of driver and operator: `python tests/benchmarks/control_connections.py`.

10,000 connections, half of them after a TLS handshake, while a client with the token looks. The bar: the server's process
grows by 20 MiB at most. Takes a minute. With `--flood 600` each port has ten minutes of endless headers, bodies and requests
instead; the bar is 32 MiB. All on loopback.
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
    """Serve in a process of its own, and say on demand how large it is."""
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
    """Measure; return 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flood", type=float, metavar="SECONDS", help="of each port, instead of the connections")
    parser.add_argument("--port", action="append", choices=NAMES, help="of a flood; all if none is given")
    given = parser.parse_args()
    if given.flood is not None:
        return int(max(flooded(name, given.flood) for name in given.port or NAMES) > FLOOD_BAR_MIB)
    return crowded()


def crowded():
    """Measure the connections; return 1 when the bar is missed."""
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
