"""A class on one machine: eight kernels run the default race of LengthLab at the same time.

While the races run, every kernel is asked again and again to move a slider of another app, which
redraws its picture.
"""

import time

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from alibi_viz.train.training import BATCH_SIZE, LENGTH, STEPS
from benchmarks.row import Row

KERNELS = 8
SECONDS = 600  # a class does not wait longer
START = (
    "from alibi_viz import widgets\nlab, bias = widgets.LengthLab(), "
    "widgets.BiasExplorer()\nlab, bias"
)
MOVE = "bias.num_heads = {heads}\nbias.refresh()"


def main() -> list[Row]:
    managers = [KernelManager() for _ in range(KERNELS)]
    try:
        for manager in managers:
            manager.start_kernel()
        clients = [manager.blocking_client() for manager in managers]
        for client in clients:
            client.start_channels()
            run(client, START)
        at_rest = max(map(memory, clients))
        begin = time.perf_counter()
        for client in clients:
            run(client, "race = lab.train()")
        answers: list[float] = []
        running, largest = clients, 0.0
        while running and time.perf_counter() - begin < SECONDS:
            for client in clients:
                answers.append(run(client, MOVE.format(heads=4 + len(answers) % 8)))
            largest = max(largest, *map(memory, clients))
            running = [client for client in running if value(client, "lab.running") == "True"]
        took = time.perf_counter() - begin
        finished = sum(value(client, "lab._race.state") == "'finished'" for client in clients)
        tokens = STEPS * BATCH_SIZE * LENGTH * int(value(clients[0], "len(lab.methods)"))
    finally:
        for manager in managers:
            manager.shutdown_kernel(now=True)
    slowest = sorted(answers)[int(0.99 * len(answers))]
    return [
        {
            "name": f"a class of {KERNELS}: races that did not finish",
            "figure": KERNELS - finished,
            "target": 0,
            "unit": "",
        },
        {
            "name": f"a class of {KERNELS}: the default race",
            "figure": took,
            "target": None,
            "unit": "s",
        },
        {
            "name": f"a class of {KERNELS}: training, per kernel",
            "figure": tokens / took,
            "target": None,
            "unit": "bytes/s",
        },
        {
            "name": f"a class of {KERNELS}: a slider to its picture, 99th percentile",
            "figure": slowest,
            "target": 1,
            "unit": "s",
        },
        {
            "name": f"a class of {KERNELS}: the same, the slowest",
            "figure": max(answers),
            "target": None,
            "unit": "s",
        },
        {
            "name": "memory of one of 8 kernels at rest",
            "figure": at_rest,
            "target": None,
            "unit": "MiB",
        },
        {
            "name": "memory of one of 8 kernels in a race",
            "figure": largest,
            "target": None,
            "unit": "MiB",
        },
    ]


def run(client: BlockingKernelClient, code: str) -> float:
    """Run code in a kernel, and return the seconds until it has answered."""
    begin = time.perf_counter()
    answer = client.execute_interactive(code, timeout=SECONDS, output_hook=lambda _: None)[
        "content"
    ]
    if answer["status"] != "ok":
        raise RuntimeError("\n".join(answer["traceback"]))
    return time.perf_counter() - begin


def value(client: BlockingKernelClient, expression: str) -> str:
    """The repr of an expression in a kernel."""
    reply = client.execute_interactive("", user_expressions={"it": expression}, timeout=SECONDS)
    return reply["content"]["user_expressions"]["it"]["data"]["text/plain"]


def memory(client: BlockingKernelClient) -> float:
    """The memory of a kernel in MiB; what it shares with other processes is divided among them
    (Linux only)."""
    return int(value(client, "__import__('psutil').Process().memory_full_info().pss")) / 2**20
