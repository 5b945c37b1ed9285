"""Files are written whole or not at all, whenever the writer is killed, and reading them runs no
code."""

import errno
import os
import re
import signal
import sys
from functools import partial
from itertools import count, product
from pathlib import Path

import pytest

from alibi_viz.files import lesson_files, write
from alibi_viz.train.results import read_records, save_record
from tests.test_house import FILES, PACKAGE

ROWS = [{"value": value} for value in range(20)]
RUN = {"task": "text", "label": "alibi", "seed": 0}


def record(**others):
    """The record of a run, with a few rows."""
    return {"run": RUN, "text": "", "error": None, "rows": ROWS} | others


def fork(work):
    """The id of a process that does this work; it inherits the modules, so it starts at once."""
    process = os.fork()
    if process == 0:
        try:
            work()
        finally:
            os._exit(0)
    return process


PIECE = "tests.piece"
OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", PIECE}


def write_in_pieces(path, content):
    """`Path.write_bytes` in several operations, between which it can be killed."""
    with path.open("wb", buffering=0) as file:
        for start in range(0, len(content), 100):
            sys.audit(PIECE, str(path))
            file.write(content[start : start + 100])


def is_killed_at(operation, folder, work):
    """Do this work in another process, which is killed before one of its operations on files.

    Only those in the folder are counted, from 1 on. False if the work takes fewer.
    """
    numbers = count(1)

    def kill(event, arguments):
        if event not in OPERATIONS or not str(arguments[0]).startswith(str(folder)):
            return
        if next(numbers) == operation:
            os.kill(os.getpid(), signal.SIGKILL)

    def work_until_killed():
        Path.write_bytes = write_in_pieces  # type: ignore[assignment, method-assign]
        sys.addaudithook(kill)
        work()

    _, status = os.waitpid(fork(work_until_killed), 0)
    return os.WIFSIGNALED(status)


def test_a_writer_killed_at_any_operation_leaves_the_old_or_the_new_file(tmp_path):
    save_record(record(error="0"), tmp_path)
    previous = "0"
    replaced_at = []
    for operation in count(1):
        new = str(operation)
        was_killed = is_killed_at(
            operation, tmp_path, partial(save_record, record(error=new), tmp_path)
        )
        (saved,) = read_records(tmp_path)
        assert saved["rows"] == ROWS
        assert saved["error"] in (previous, new)
        if saved["error"] == new:
            replaced_at.append(operation)
        previous = saved["error"]
        if not was_killed:
            break
    assert operation > 5, "the writer is killed between the pieces of the content, too"
    assert replaced_at[-1] == operation, "a writer that isn't killed replaces the file"
    assert len(list(tmp_path.glob(".*"))) > 0, "no killed writer has left a part of a file"


def test_processes_that_save_into_one_folder_lose_nothing(tmp_path):
    def save(process):
        for number in range(20):
            settings = {**RUN, "seed": f"{process}-{number}"}
            save_record(record(run=settings), tmp_path)

    processes = [fork(partial(save, process)) for process in range(4)]
    for process in processes:
        _, status = os.waitpid(process, 0)
        assert status == 0
    seeds = {saved["run"]["seed"] for saved in read_records(tmp_path)}
    assert seeds == {f"{process}-{number}" for process, number in product(range(4), range(20))}


@pytest.fixture
def link(tmp_path):
    """A link to a file with the content "old", in a folder that has nothing else."""
    (tmp_path / "file").write_text("old")
    path = tmp_path / "link"
    path.symlink_to(tmp_path / "file")
    return path


def test_a_failure_leaves_the_old_file_and_nothing_else_and_names_the_file(link, monkeypatch):
    def disk_full(path, content):
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    message = f"^no space left on device while writing '{link}'$"
    with monkeypatch.context() as patch, pytest.raises(OSError, match=message):
        patch.setattr(Path, "write_bytes", disk_full)
        write(link, "new")
    assert link.read_text() == "old"
    assert {path.name for path in link.parent.iterdir()} == {"link", "file"}


def test_a_link_is_kept_and_the_file_behind_it_replaced(link):
    write(link, "new")
    assert link.is_symlink()
    assert (link.parent / "file").read_text() == "new"


def test_text_that_utf_8_cannot_represent_is_replaced(tmp_path):
    write(tmp_path / "file", "new \ud800")
    assert (tmp_path / "file").read_text() == "new ?"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"there is no folder '{tmp_path}/missing'"):
        write(tmp_path / "missing" / "file", "new")


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match=f"'{tmp_path}' is a folder"):
        write(tmp_path, "new")


def test_a_pipe_is_written_to():
    reader, writer = os.pipe()
    write(f"/dev/fd/{writer}", "new")
    assert os.read(reader, 9) == b"new"


# {file: what it may do that others must not}
SAFE = {
    "files.py": {"write_bytes"},
    "train/results.py": {"pickle.loads"},  # what this process has sent to its own workers
    "lessons/bugs.py": {"exec("},  # the reader's own lines in `SpotTheBug`
}
DANGEROUS = re.compile(
    r"""
    write_text | write_bytes
    | (?<![\w.]) (?:open|eval|exec) \(
    | pickle\.loads?\b | torch\.load | read_pickle | allow_pickle
    """,
    re.VERBOSE,
)


def test_files_are_written_in_one_place_and_no_code_is_run_from_them():
    found = {}
    for path in FILES:
        dangerous = set(DANGEROUS.findall(path.read_text()))
        if dangerous:
            found[str(path.relative_to(PACKAGE))] = dangerous
    assert found == SAFE


# The lessons


def test_lessons_are_those_of_the_clone_in_their_order_without_a_readers_own(tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.files.__file__", str(tmp_path / "alibi_viz" / "files.py"))
    notebooks = tmp_path / "notebooks"
    notebooks.mkdir()
    for name in ("01_the_line", "00_start_here", "Untitled"):
        (notebooks / f"{name}.ipynb").write_text("")
    assert [path.stem for path in lesson_files()] == ["00_start_here", "01_the_line"]


def test_without_a_clone_lessons_are_where_pip_has_put_them(tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.files.__file__", str(tmp_path / "alibi_viz" / "files.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path / "environment"))
    with pytest.raises(FileNotFoundError, match=r"the lessons are in none of .*: install again"):
        lesson_files()
    lesson = tmp_path / "environment" / "share" / "alibi_viz" / "notebooks" / "00_start_here.ipynb"
    lesson.parent.mkdir(parents=True)
    lesson.write_text("")
    assert lesson_files() == [lesson]
