"""Floor 3: a results file is never harmed, never holds a run twice, and holds what is finished at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from alibi_viz import lab
from alibi_viz.lab.sweep import _append
from tests.lab.test_sweep import runs


def test_what_is_no_results_file_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("my notes\nmore\n")
    with pytest.raises(ValueError, match=r"line 1 of .*notes\.txt' is not a result of this version: b'my notes'"):
        lab.sweep(runs(2), path=path)
    assert path.read_text() == "my notes\nmore\n"


@pytest.mark.parametrize(
    "content", [b"three years of notes", b"\x80\x04binary", b'[{"position": "alibi"}]', b"{}", b'{"run": 1}']
)
def test_what_has_no_newline_is_left_alone_too(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"line 1 of .*notes\.txt' is not a result of this version"):
        lab.sweep(runs(2), path=path)
    with pytest.raises(ValueError, match="not"):
        _append(path, {"run": runs(1)[0].settings()})  # written over while a sweep was on
    assert path.read_bytes().startswith(content)


def test_finished_runs_are_kept_before_anybody_asks_for_them(tmp_path):
    path = tmp_path / "results.jsonl"
    with ThreadPoolExecutor(1) as pool:
        records = lab.sweep(runs(3), pool, path=path, progress=False)
        next(records)
        deadline = time.monotonic() + 60
        while len(lab.read_results(path)) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(lab.read_results(path)) == 3
        records.close()
    assert len(lab.read_results(path)) == 3


def test_a_run_that_two_sweeps_do_stands_in_the_file_once(tmp_path):
    path = tmp_path / "results.jsonl"
    one, other = lab.sweep(runs(2), path=path, progress=False), lab.sweep(runs(3), path=path, progress=False)
    assert len([*one, *other]) == 5
    assert [record["run"] for record in lab.read_results(path)] == [run.settings() for run in runs(3)]


def test_another_text_at_the_same_path_is_not_the_same_run(tmp_path):
    text, path = tmp_path / "text.txt", tmp_path / "results.jsonl"
    text.write_text("to be or not to be, that is the question. " * 600)
    run = lab.Run("alibi", length=16, steps=2, longest=2, path=str(text))
    (first,) = lab.sweep([run], path=path, progress=False)
    assert list(lab.sweep([run], path=path, progress=False)) == [first]
    text.write_text("something else, and more of it than there was. " * 600)
    with pytest.raises(ValueError, match=r"is not the text any more that its runs in .* have read"):
        lab.sweep([run], path=path)


def test_a_place_that_cannot_be_written_is_named_before_any_run(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        lab.sweep(runs(1), path=tmp_path / "file" / "results.jsonl")


def test_an_interruption_while_runs_are_handed_out_loses_none_that_finish(tmp_path):
    path = tmp_path / "results.jsonl"

    class Interrupted(ThreadPoolExecutor):
        given = 0

        def submit(self, *arguments, **options):
            self.given += 1
            if self.given == 3:
                raise KeyboardInterrupt
            return super().submit(*arguments, **options)

    with Interrupted(1) as pool, pytest.raises(KeyboardInterrupt):
        list(lab.sweep(runs(4), pool, path=path, progress=False))
    assert len(lab.read_results(path)) >= 1
