"""Load of `mtkit serve`: throughput and latency beside `mtkit translate`, many clients, memory over many requests.

    python tools/benchmarks/server_load.py MODEL FILE [--rounds 3] [--clients 200] [--seconds 60] [--requests 100000]

The generator speaks HTTP over plain asyncio streams in this process, whose processor time is stated beside that of the
server. All ratios are of rounds that alternate within one run; the cache of translations is off except for the memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server(model: str, *options: str, checkout: Path | None = None) -> Iterator[tuple[int, int]]:
    """The process and the port of a server, of a checkout or of what is installed."""
    command = [sys.executable, "-m", "mtkit", "serve", model, "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=checkout)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "listening" in line)
    try:
        yield process.pid, int(line.strip().rpartition(":")[2])
    finally:
        process.terminate()
        process.wait()


class Client:
    """A connection to the server."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def translate(self, lines: Sequence[str]) -> int:
        """The status of a request for lines."""
        if not hasattr(self, "_reader"):
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        body = json.dumps({"q": list(lines), "source": "en", "target": "de"}).encode()
        head = "POST /translate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", answer)[1])  # type: ignore[index]
        self.body = await self._reader.readexactly(length)
        return int(answer.split()[1])


def memory_of(pid: int) -> int:
    """Bytes of a process."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(re.search(r"Pss:\s+(\d+)", text)[1])  # type: ignore[index]


def children(pid: int) -> list[int]:
    found = [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    return [pid, *(each for child in found for each in children(child))]


def processor_seconds(pid: int) -> float:
    """Of a process and its children that run."""
    ticks = 0
    for each in children(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / 100


async def send_all(port: int, lines: Sequence[str], *, size: int, connections: int) -> float:
    """Seconds for all lines in requests of `size` lines over some connections."""
    parts = iter([lines[start : start + size] for start in range(0, len(lines), size)])

    async def work() -> None:
        client = Client(port)
        for part in parts:
            assert await client.translate(part) == 200

    begun = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(connections)))
    return time.perf_counter() - begun


def throughput(model: str, file: Path, lines: Sequence[str], rounds: int, workers: int) -> None:
    command = [sys.executable, "-m", "mtkit", "translate", model, str(file), "--workers", str(workers)]
    blank = Path(tempfile.mkdtemp()) / "blank"
    blank.write_text("\n")
    ratios: dict[str, list[float]] = {"translate": [], "translate --split-sentences": []}

    def seconds(*words: str) -> float:
        begun = time.perf_counter()
        subprocess.run([*command, "--quiet", *words], check=True, capture_output=True)
        return time.perf_counter() - begun

    for _ in range(rounds):
        command[5] = str(blank)
        start = seconds()  # of Python and the model
        command[5] = str(file)
        with server(model, "--workers", str(workers), "--cache", "0") as (_, port):
            served = asyncio.run(send_all(port, lines, size=50, connections=16))
        for name, of_name in ratios.items():
            of_name.append((seconds(*name.split()[1:]) - start) / served)
        print(f"serve {len(lines) / served:,.0f} lines/s", {name: f"{each[-1]:.2f}" for name, each in ratios.items()})
    for name, of_name in ratios.items():
        print(f"throughput: median ratio to {name} {statistics.median(of_name):.2f}")


def latency(model: str, lines: Sequence[str], rounds: int) -> None:
    import mtkit

    translator = mtkit.load_model(model, threads=1)
    short = [line for line in lines if len(line.split()) <= 8][:50]
    differences = []
    with server(model, "--workers", "1", "--cache", "0") as (_, port):

        async def one_round() -> tuple[float, float]:
            client = Client(port)
            await client.translate(short[:1])
            ours, theirs = [], []
            for line in short:
                begun = time.perf_counter()
                translator.translate_lines([line])
                middle = time.perf_counter()
                await client.translate([line])
                ours.append(middle - begun)
                theirs.append(time.perf_counter() - middle)
            return statistics.median(ours), statistics.median(theirs)

        for _ in range(rounds):
            alone, served = asyncio.run(one_round())
            differences.append(1000 * (served - alone))
            print(f"one sentence: translate {1000 * alone:.1f} ms, serve {1000 * served:.1f} ms")
    print(f"latency: median difference {statistics.median(differences):.2f} ms")


async def many_clients(port: int, lines: Sequence[str], clients: int, seconds: float, rate: float) -> list[float]:
    """Seconds of the requests of clients that send `rate` requests a second together, of a line each."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    rng = random.Random(1)

    async def work() -> None:
        client = Client(port)
        while (now := time.perf_counter()) < end:
            assert await client.translate([rng.choice(lines)]) == 200
            times.append(time.perf_counter() - now)
            await asyncio.sleep(rng.expovariate(rate / clients))

    async def begin() -> None:
        await asyncio.sleep(rng.uniform(0, clients / rate))
        await work()

    await asyncio.gather(*(begin() for _ in range(clients)))
    return sorted(times)


def half_load(model: str, lines: Sequence[str], clients: int, seconds: float, workers: int) -> None:
    with server(model, "--workers", str(workers), "--cache", "0") as (pid, port):
        full = len(lines) / asyncio.run(send_all(port, lines, size=1, connections=64))
        used = [sum(map(memory_of, children(pid))) >> 20]
        before, ours = processor_seconds(pid), resource.getrusage(resource.RUSAGE_SELF).ru_utime
        times = asyncio.run(many_clients(port, lines, clients, seconds, full / 2))
        ours, theirs = resource.getrusage(resource.RUSAGE_SELF).ru_utime - ours, processor_seconds(pid) - before
        used.append(sum(map(memory_of, children(pid))) >> 20)
    p50, p99 = times[len(times) // 2], times[int(0.99 * len(times))]
    print(f"{clients} clients, {seconds:.0f} s: {len(times)} requests, {full:.0f}/s at full load")
    print(f"p50 {1000 * p50:.0f} ms, p99 {1000 * p99:.0f} ms, ratio {p99 / p50:.1f}")
    print(f"processor: server {theirs:.0f} s, generator {ours:.0f} s; memory before and after: {used} MiB")


def memory(model: str, lines: Sequence[str], requests: int) -> None:
    with server(model, "--workers", "1", "--cache", "20") as (pid, port):
        for part in range(11):
            count = 0 if not part else requests // 10
            varied = [f"{lines[i % len(lines)]} {part} {i}" for i in range(count // 20)]
            many = [line for line in varied for _ in range(20)]  # most are in the cache
            asyncio.run(send_all(port, many, size=1, connections=16))
            used = sum(map(memory_of, children(pid)))
            print(f"after {part * requests // 10:,} requests: {used >> 20} MiB, server alone {memory_of(pid) >> 20}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", choices=["throughput", "latency", "clients", "memory"])
    options = parser.parse_args()
    lines = options.file.read_text(encoding="utf-8").split("\n")[:-1]
    if options.only in (None, "throughput"):
        throughput(options.model, options.file, lines, options.rounds, options.workers)
    if options.only in (None, "latency"):
        latency(options.model, lines, options.rounds)
    if options.only in (None, "clients"):
        half_load(options.model, lines, options.clients, options.seconds, options.workers)
    if options.only in (None, "memory"):
        memory(options.model, lines, options.requests)


if __name__ == "__main__":
    main()
