"""Files are written whole or not at all, however often the writer is killed, and reading them runs
no code."""

import os
import random
import re
import signal
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from alibi_viz import lab
from alibi_viz.files import write
from alibi_viz.train.results import read_records, save_record
from tests.tables import SMALL
from tests.test_house import FILES, PACKAGE

KILLS = 50  # for results and again for a saved run
ROWS = [{"value": each} for each in range(2_000)]  # 30 kB, which take a while
RUN = {"task": "text", "label": "alibi", "seed": 0}
MODEL = lab.make_model("alibi", **SMALL)


def forked(work: Callable[[], object]) -> int:
    """The id of a process that does this work; it inherits the modules, so it starts at once."""
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(0)
    return process


def result(folder: Path, number: int) -> None:
    save_record({"run": RUN, "text": "", "error": number, "rows": ROWS}, folder)


def run(folder: Path, number: int) -> None:
    lab.save_run(folder / f"{number}-{time.monotonic_ns()}", MODEL, settings={"number": number})


def check_result(folder: Path) -> None:
    assert all(record["rows"] == ROWS for record in read_records(folder))


def in_pieces(path: Path, content: bytes) -> None:
    """A slow `Path.write_bytes`, which is easy to interrupt."""
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(content), 64):
            file.write(content[start : start + 64])


def check_run(folder: Path) -> None:
    for path in folder.glob("[!.]*"):
        saved = lab.load_run(path)
        assert (
            saved.settings == {"number": int(path.name[0])} and saved.model.config == MODEL.config
        )
        path.rename(path.parent.parent / path.name)  # checked


@pytest.mark.parametrize(("writes", "check"), [(result, check_result), (run, check_run)])
def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new_file(
    writes: Callable[[Path, int], None], check: Callable[[Path], None], tmp_path: Path
) -> None:
    folder, chance, (reader, writer) = tmp_path / "folder", random.Random(0), os.pipe()
    folder.mkdir()

    def forever() -> None:
        Path.write_bytes = in_pieces  # type: ignore[assignment, method-assign]  # in this process
        for number in count():
            writes(folder, number % 10)
            if not number:
                os.write(writer, b".")

    for kills in count(1):
        start, process = time.monotonic(), forked(forever)
        os.read(reader, 1)  # it has written once
        time.sleep(
            chance.uniform(0, time.monotonic() - start)
        )  # so it's killed at some moment of the second time
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        check(folder)
        killed_in_the_middle = len(list(folder.glob(".*")))
        if (
            kills >= KILLS and killed_in_the_middle > KILLS / 10
        ):  # on a busy machine it takes more kills
            break
    writes(folder, 1)
    check(folder)


def test_processes_that_save_into_one_folder_lose_nothing(tmp_path: Path) -> None:
    def save(process: int) -> None:
        for number in range(50):
            save_record(
                {
                    "run": {**RUN, "seed": f"{process}-{number}"},
                    "text": "",
                    "error": None,
                    "rows": ROWS,
                },
                tmp_path,
            )

    for each in [forked(lambda process=process: save(process)) for process in range(4)]:  # type: ignore[misc]
        assert os.waitpid(each, 0)[1] == 0
    seeds = {record["run"]["seed"] for record in read_records(tmp_path)}
    assert seeds == {f"{process}-{number}" for process in range(4) for number in range(50)}


def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, file = tmp_path / "link", tmp_path / "file"
    file.write_text("old")
    link.symlink_to(file)

    def disk_full(path: Path, content: bytes) -> None:
        path.touch()
        raise OSError("disk full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="disk full"):
        patch.setattr(Path, "write_bytes", disk_full)
        write(link, "new")
    assert file.read_text() == "old" and set(tmp_path.iterdir()) == {link, file}
    write(link, "new \ud800")
    assert link.is_symlink() and file.read_text() == "new ?"
    with pytest.raises(FileNotFoundError, match=f"there is no folder: '{tmp_path}/missing'"):
        write(tmp_path / "missing" / "file", "new")
    with pytest.raises(IsADirectoryError, match=f"is a folder: '{tmp_path}'"):
        write(tmp_path, "new")
    reader, writer = os.pipe()
    write(f"/dev/fd/{writer}", "new")
    assert os.read(reader, 9) == b"new", "a pipe is written to"


SAFE = {  # file: what it may do that others must not, and why
    "files.py": {"write_bytes"},
    "train/saved_models.py": {"write_text"},  # into a folder that gets its name afterwards
    "train/sweep.py": {"pickle.loads"},  # what this process has sent to its own workers
    "lessons/bugs.py": {"exec("},  # the reader's own lines in `SpotTheBug`
}
DANGEROUS = re.compile(
    r"write_text|write_bytes|(?<![\w.])(?:open|eval|exec)\(|pickle\.loads?\b|torch\.load|read_pickle|allow_pickle"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_are_written_in_one_place_and_no_code_is_run_from_them(path: Path) -> None:
    assert {*DANGEROUS.findall(path.read_text())} == SAFE.get(str(path.relative_to(PACKAGE)), set())
