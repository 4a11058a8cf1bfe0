"""The collector of garbage rests while the model is loaded, and works again afterwards."""

import gc

import pytest

from lookahead.cli.garbage import collector_paused


@pytest.fixture(autouse=True)
def nothing_stays_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_what_was_loaded_is_not_looked_through_again_unless_loading_failed():
    with pytest.raises(ValueError, match="broken"), collector_paused():
        raise ValueError("broken")
    assert gc.get_freeze_count() == 0
    with collector_paused():
        pass
    assert gc.get_freeze_count() > 0


def test_the_collector_rests_inside_and_works_outside():
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_works_again_after_an_error():
    with pytest.raises(ValueError, match="broken"), collector_paused():
        raise ValueError("broken")
    assert gc.isenabled()


def test_a_pause_inside_a_pause_ends_with_the_outer_one():
    with collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()


def test_who_has_switched_the_collector_off_keeps_it_off():
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
