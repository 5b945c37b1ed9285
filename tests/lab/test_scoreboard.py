"""Floor 3: the record of a race."""

import pytest

from alibi_viz import lab


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def lap(method="alibi", index=1, *, loss=4.0, speed=1000.0, by_length=None):
    return lab.Lap(method, lab.Step(index, 10, loss, speed), by_length, model=lab.make_model(method))


def board(*methods, clock=None):
    return lab.Scoreboard(methods, steps=10, lengths=[32, 64], clock=clock or Clock())


def test_steps_become_curves():
    seen = board("alibi", "none")
    seen.add(lap(loss=4.0))
    seen.add(lap(by_length={32: 5.0}))
    seen.add(lap(index=2, loss=3.0))
    assert seen.losses == {"alibi": [4.0, 3.0], "none": []}
    assert (seen.step("alibi"), seen.step("none")) == (2, 0)
    assert list(seen.models) == ["alibi"]


def test_only_whole_tests_that_all_have_done_count():
    seen = board("alibi", "none")
    seen.add(lap(by_length={32: 5.0}))
    seen.add(lap(by_length={32: 5.0, 64: 6.0}))
    assert (seen.tested(), seen.by_length("alibi")) == (0, {})  # none has not been tested
    seen.add(lap("none", by_length={32: 7.0, 64: 8.0}))
    seen.add(lap(index=2, by_length={32: 4.0}))
    assert seen.tested() == 1  # the test of alibi after step 2 is not complete
    assert (seen.by_length("alibi"), seen.by_length("none")) == ({32: 5.0, 64: 6.0}, {32: 7.0, 64: 8.0})


def test_speed_is_that_of_the_recent_steps():
    seen = board("alibi")
    assert seen.tokens_per_second("alibi") == 0
    for index in range(1, 40):
        seen.add(lap(index=index, speed=1.0))
    for index, speed in enumerate([1000.0, 3000.0] * 10):
        seen.add(lap(index=40 + index, speed=speed))
    assert seen.tokens_per_second("alibi") == pytest.approx(1500)  # the same number of tokens at each speed


def test_time_left_is_what_the_remaining_steps_take_at_the_pace_so_far():
    clock = Clock()
    seen = board("alibi", clock=clock)
    assert seen.seconds_left("alibi") is None
    clock.now += 4
    for index in (1, 2):
        seen.add(lap(index=index))
    assert seen.seconds_left("alibi") == pytest.approx(4 / 2 * 8)
