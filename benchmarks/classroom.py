"""A class on one machine: eight kernels run the default race of LengthLab at the same time.

While the races run, every kernel is asked again and again to move a slider of another app, which
redraws its picture.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from alibi_viz.train.training import BATCH_SIZE, LENGTH, STEPS
from benchmarks.row import Row

KERNELS = 8
SECONDS = 600  # a class does not wait longer
START = """
from alibi_viz import widgets
lab = widgets.LengthLab(steps={steps})
bias = widgets.BiasExplorer()
lab, bias
"""
MOVE = "bias.num_heads = {heads}\nbias.refresh()"


def main(*, smallest: bool = False) -> list[Row]:
    kernel_count = 1 if smallest else KERNELS
    steps = 10 if smallest else STEPS
    with kernels(kernel_count) as clients:
        for client in clients:
            run(client, START.format(steps=steps))
        memory_at_rest = max(map(memory, clients))

        begin = time.perf_counter()
        for client in clients:
            run(client, "race = lab.train()")
        slider_seconds: list[float] = []
        memory_in_race = 0.0
        running = clients
        while running and time.perf_counter() - begin < SECONDS:
            for client in clients:
                heads = 4 + len(slider_seconds) % 8
                slider_seconds.append(run(client, MOVE.format(heads=heads)))
            memory_in_race = max(memory_in_race, *map(memory, clients))
            running = [client for client in running if value(client, "lab.running") == "True"]
        race_seconds = time.perf_counter() - begin

        states = [value(client, "lab._race.state") for client in clients]
        methods = int(value(clients[0], "len(lab.methods)"))

    unfinished = kernel_count - states.count("'finished'")
    trained_bytes = steps * BATCH_SIZE * LENGTH * methods
    percentile_99 = sorted(slider_seconds)[int(0.99 * len(slider_seconds))]
    name = f"a class of {kernel_count}"
    return [
        Row(name=f"{name}: races that did not finish", figure=unfinished, target=0, unit=""),
        Row(name=f"{name}: the default race", figure=race_seconds, unit="s"),
        Row(
            name=f"{name}: training, per kernel",
            figure=trained_bytes / race_seconds,
            unit="bytes/s",
        ),
        Row(
            name=f"{name}: a slider to its picture, 99th percentile",
            figure=percentile_99,
            target=1,
            unit="s",
        ),
        Row(name=f"{name}: the same, the slowest", figure=max(slider_seconds), unit="s"),
        Row(
            name=f"memory of one of {kernel_count} kernels at rest",
            figure=memory_at_rest,
            unit="MiB",
        ),
        Row(
            name=f"memory of one of {kernel_count} kernels in a race",
            figure=memory_in_race,
            unit="MiB",
        ),
    ]


@contextmanager
def kernels(count: int) -> Iterator[list[BlockingKernelClient]]:
    """Start the kernels of a class, and shut them down at the end."""
    managers = [KernelManager() for _ in range(count)]
    try:
        for manager in managers:
            manager.start_kernel()
        clients = [manager.blocking_client() for manager in managers]
        for client in clients:
            client.start_channels()
        yield clients
    finally:
        for manager in managers:
            manager.shutdown_kernel(now=True)


def run(client: BlockingKernelClient, code: str) -> float:
    """Run code in a kernel, and return the seconds until it has answered."""
    begin = time.perf_counter()
    reply = client.execute_interactive(code, timeout=SECONDS, output_hook=lambda _: None)
    content = reply["content"]
    if content["status"] != "ok":
        raise RuntimeError("\n".join(content["traceback"]))
    return time.perf_counter() - begin


def value(client: BlockingKernelClient, expression: str) -> str:
    """The repr of an expression in a kernel."""
    reply = client.execute_interactive("", user_expressions={"it": expression}, timeout=SECONDS)
    return reply["content"]["user_expressions"]["it"]["data"]["text/plain"]


def memory(client: BlockingKernelClient) -> float:
    """The memory of a kernel in MiB (Linux only).

    What it shares with other processes is divided among them.
    """
    return int(value(client, "__import__('psutil').Process().memory_full_info().pss")) / 2**20
