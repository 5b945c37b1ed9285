"""A model that transformers has saved is opened by its folder, and nothing is downloaded."""

import os
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from alibi_viz.measure.attention_sources import PretrainedModel
from alibi_viz.widgets import AttentionExplorer

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers", reason="pip install transformers")

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import FalconConfig, GPT2Config, PreTrainedTokenizerFast

from tests.pretrained_models import small_model
from tests.rows import each_case

LOADERS = ("AutoConfig", "AutoTokenizer", "AutoModel")
TEXT = "to be or not to be, that is the question"
FAMILIES = ("bloom", "mpt", "falcon sdpa")


def save_tokenizer(folder):
    """Save a tokenizer of byte pairs, as BLOOM's, which knows the words of the text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([TEXT, TEXT, TEXT], trainer)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The folder of a saved model of each family."""
    parent = tmp_path_factory.mktemp("my models")
    folders = {}
    for family in FAMILIES:
        folders[family] = parent / family
        save_tokenizer(folders[family])
        small_model(family, vocabulary=400).save_pretrained(folders[family])
    return folders


# Opening


def test_an_app_opens_a_model_by_its_folder(folders):
    app = AttentionExplorer(source=str(folders["bloom"]), text=TEXT, content="layer 2")
    assert len(app.heads) == 4
    assert app.contents == ("layer 1", "layer 2", "random vectors")


@pytest.mark.parametrize("family", FAMILIES)
def test_an_opened_model_computes_what_the_original_does(family, folders):
    opened = PretrainedModel.from_pretrained(str(folders[family]))
    original = PretrainedModel(small_model(family, vocabulary=400), opened.tokenizer)
    torch.testing.assert_close(
        opened.read(TEXT, "layer 2", longest=48).query,
        original.read(TEXT, "layer 2", longest=48).query,
    )


def test_tokens_are_those_of_the_tokenizer_with_visible_spaces(folders):
    source = PretrainedModel.from_pretrained(str(folders["bloom"]))
    reading = source.read("to be or", "layer 1", longest=48)
    assert reading.tokens == ["to", "␣be", "␣or"]


def test_parts_of_a_character_are_shown_by_their_names(folders):
    source = PretrainedModel.from_pretrained(str(folders["bloom"]))
    reading = source.read("é", "layer 1", longest=48)
    # The bytes c3 and a9 in the alphabet of byte-level tokenizers.
    assert reading.tokens == ["Ã", "©"]


@pytest.mark.parametrize("name", LOADERS)
def test_nothing_is_downloaded(name, folders, monkeypatch):
    loader = Mock(wraps=getattr(transformers, name).from_pretrained)
    monkeypatch.setattr(getattr(transformers, name), "from_pretrained", loader)
    PretrainedModel.from_pretrained(str(folders["bloom"]))
    first_call = loader.call_args_list[0]  # transformers itself may call it again
    assert first_call.kwargs == {"local_files_only": True}


@pytest.mark.weekly
def test_the_guide_runs_as_printed_with_a_model_of_ones_own(folders, tmp_path, monkeypatch):
    guide = Path(__file__).parents[2] / "docs" / "guides" / "pretrained.md"
    blocks = re.findall(r"```python\n(.*?)```", guide.read_text("utf-8"), re.DOTALL)
    (tmp_path / "mine.txt").write_text(TEXT * 400)
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(block.replace("bigscience/bloom-560m", str(folders["bloom"])), names)
    assert set(names["table"]["x"]) == {32, 128, 512}


# What cannot be opened


def test_a_model_that_is_not_on_this_machine_is_named():
    message = "cannot load the model 'someone/no-model': .*: hf download someone/no-model"
    with pytest.raises(ValueError, match=f"(?s){message}"):
        AttentionExplorer(source="someone/no-model")


def test_a_folder_without_a_model_is_named(tmp_path):
    message = f"cannot load the model '{re.escape(str(tmp_path))}': "
    with pytest.raises(ValueError, match=message):
        AttentionExplorer(source=str(tmp_path))


def test_damaged_weights_are_named(folders, tmp_path):
    damaged = tmp_path / "damaged"
    shutil.copytree(folders["bloom"], damaged)
    (damaged / "model.safetensors").write_text("version git-lfs")
    message = "cannot load the model .*: Error while deserializing header"
    with pytest.raises(ValueError, match=message):
        AttentionExplorer(source=str(damaged))


def test_without_transformers_one_is_told_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = "cannot load the model 'a/b': .*: pip install transformers"
    with pytest.raises(ValueError, match=message):
        AttentionExplorer(source="a/b")


@each_case(
    ("config", "message"),
    {
        "another family": (GPT2Config(), "model must be one of bloom, falcon, mpt, got 'gpt2'"),
        "without ALiBi": (
            FalconConfig(alibi=False),
            "this falcon model was configured without ALiBi",
        ),
    },
)
def test_the_family_is_checked_before_anything_is_loaded(config, message, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", pytest.fail)
    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", pytest.fail)
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=message):
        PretrainedModel.from_pretrained(str(tmp_path))
