"""Many races of one app, started and stopped: none leaves a thread, a model or a tensor behind."""

import gc
import threading
from collections import Counter
from typing import NamedTuple

import pytest
from ipywidgets import Widget
from torch import Tensor

from alibi_viz.models import LanguageModel
from alibi_viz.widgets.core.background import Background
from alibi_viz.widgets.race.state import RaceState
from tests.widgets.race.paced_race import paced
from tests.widgets.race.small_race import small

WARM_UP = 2  # races, after which everything that is kept once is there
RACES = 3
MADE_BY_A_RACE = (RaceState, LanguageModel, Tensor, Background, Widget)


class Remains(NamedTuple):
    """What there is after some races."""

    threads: set[threading.Thread]
    objects: dict[type, int]  # {class: how many are alive}


@pytest.fixture(scope="module")
def after_warm_up_and_after_all(small_models):
    app = small(methods=["alibi"], steps=2000)

    def race(pace):
        pace.train(app)
        pace.go(1)
        pace.stop(app)

    with paced() as pace:
        for _ in range(WARM_UP):
            race(pace)
        after_warm_up = remains()
        for _ in range(RACES):
            race(pace)
    return after_warm_up, remains()


def remains():
    gc.collect()
    alive = Counter(type(candidate) for candidate in gc.get_objects())
    objects = dict.fromkeys(MADE_BY_A_RACE, 0)
    for cls, count in alive.items():
        for made in MADE_BY_A_RACE:
            if issubclass(cls, made):
                objects[made] += count
    return Remains(set(threading.enumerate()), objects)


def test_stopped_races_leave_no_thread(after_warm_up_and_after_all):
    after_warm_up, after_all = after_warm_up_and_after_all
    assert after_all.threads - after_warm_up.threads == set()


def test_stopped_races_leave_no_object(after_warm_up_and_after_all):
    after_warm_up, after_all = after_warm_up_and_after_all
    before = after_warm_up.objects
    more = {cls: count for cls, count in after_all.objects.items() if count > before[cls]}
    assert more == {}
