"""A sweep's results folder is never damaged, and holds each finished run exactly once."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from alibi_viz import lab
from alibi_viz.lab.results import read_records
from tests.lab.test_sweep import runs, until


@pytest.mark.parametrize("content", ["my notes", "[]", "{}", '{"run": 1}', '{"run": {}, "answers": []}', "[" * 10_000])
def test_a_folder_with_other_json_files_raises_and_leaves_the_folder_unchanged(tmp_path, content):
    (tmp_path / "notes.json").write_text(content)
    with pytest.raises(ValueError, match=r"notes\.json of .* is not a result of this version"):
        lab.sweep(runs(2), path=tmp_path)
    assert (tmp_path / "notes.json").read_text() == content
    assert len(list(tmp_path.iterdir())) == 1


def test_other_files_in_the_folder_are_ignored(tmp_path):
    (tmp_path / "README.md").write_text("my results")
    (tmp_path / ".text-alibi.json.123-456").write_text('{"run": {')  # an unfinished file of a killed sweep
    assert len(list(lab.sweep(runs(2), path=tmp_path, progress=False))) == 2
    assert len(read_records(tmp_path)) == 2


def test_a_file_in_place_of_the_folder_raises(tmp_path):
    (tmp_path / "results.jsonl").write_text("")
    with pytest.raises(ValueError, match="is a file, and a sweep saves its results in a folder"):
        lab.sweep(runs(1), path=tmp_path / "results.jsonl")
    with pytest.raises(OSError, match=r"results\.jsonl"):
        lab.sweep(runs(1), path=tmp_path / "results.jsonl" / "below")


def test_finished_runs_are_saved_before_the_caller_asks_for_them(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        records = lab.sweep(runs(3), pool, path=tmp_path, progress=False)
        next(records)
        until(lambda: len(read_records(tmp_path)) == 3, 60)
        records.close()
    assert len(read_records(tmp_path)) == 3


def test_two_sweeps_that_share_a_folder_keep_each_run_once(tmp_path):
    one, other = (lab.sweep(runs(count), path=tmp_path, progress=False) for count in (2, 3))
    assert len([*one, *other]) == 5
    saved = {json.dumps(record["run"], sort_keys=True) for record in read_records(tmp_path)}
    assert saved == {json.dumps(run.settings(), sort_keys=True) for run in runs(3)}
    assert len(read_records(tmp_path)) == 3


def test_a_changed_text_at_the_same_path_raises(tmp_path):
    text, path = tmp_path / "text.txt", tmp_path / "results"
    text.write_text("".join(f"to be or not to be, that is question {number}. " for number in range(600)))
    run = lab.Run("alibi", length=16, steps=2, longest=2, path=str(text))
    (first,) = lab.sweep([run], path=path, progress=False)
    assert list(lab.sweep([run], path=path, progress=False)) == [first]
    text.write_text("".join(f"something else, and more of it than {number}. " for number in range(600)))
    with pytest.raises(ValueError, match=r"text\.txt' has changed since runs in .* were made"):
        lab.sweep([run], path=path)


def test_runs_on_another_built_in_text_raise(tmp_path):
    """Up to version 0.1 it differed between Python versions. Results on different texts can't be compared."""
    (record,) = lab.sweep(runs(1), path=tmp_path, progress=False)
    (file,) = tmp_path.glob("*.json")
    file.write_text(json.dumps({**record, "text": "0123456789abcdef"}))
    with pytest.raises(ValueError, match="the built-in text has changed since runs"):
        lab.sweep(runs(1), path=tmp_path)
