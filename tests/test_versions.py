"""One place states the supported versions; outside of them one sentence says what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import llama, prompt

from lookahead.plugins import hf, versions
from lookahead.plugins.versions import TORCH, TRANSFORMERS, check_versions

ROOT = Path(__file__).parents[1]


@pytest.fixture
def unchecked() -> Iterator[None]:
    """As in a process that has checked nothing yet."""
    check_versions.cache_clear()
    yield
    check_versions.cache_clear()


@pytest.mark.parametrize("library", [TRANSFORMERS, TORCH])
def test_pip_installs_what_the_code_supports(library) -> None:
    assert f'"{library.requirement}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("library", [TRANSFORMERS, TORCH])
def test_the_newest_supported_version_is_the_one_that_is_tested(library) -> None:
    assert f"{library.name}=={library.newest}" in (ROOT / "constraints.txt").read_text().splitlines()


def test_the_oldest_supported_transformers_is_tested_too() -> None:
    pins = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    assert f"{TRANSFORMERS.name}=={TRANSFORMERS.oldest}" in pins


@pytest.mark.parametrize("installed", ["4.57.0", "5.16.1", "5.17.0.dev0", "6.0.0", "6.1.0.dev0"])
def test_a_version_outside_the_range_is_named_with_the_range_and_the_way_out(installed) -> None:
    with pytest.raises(ImportError) as caught:
        TRANSFORMERS.check(installed)
    assert str(caught.value) == (
        f"transformers {installed} is installed, but lookup decoding supports transformers>=5.17.0,<6: "
        'run pip install "transformers>=5.17.0,<6"'
    )


@pytest.mark.parametrize(
    ("library", "installed"),
    [(TRANSFORMERS, "5.17.0"), (TRANSFORMERS, "5.24.3"), (TORCH, "2.6.0+cu124"), (TORCH, "2.13.0+cpu")],
)
def test_a_version_inside_the_range_is_nothing_to_speak_of(library, installed, caplog) -> None:
    library.check(installed)
    assert not caplog.text


def test_a_version_newer_than_the_tests_works_and_is_named_once(unchecked, monkeypatch, caplog) -> None:
    monkeypatch.setattr(versions, "version", {"transformers": "5.99.0", "torch": TORCH.newest}.__getitem__)
    model = hf.enable(llama())
    plain = model.generate(prompt(), max_new_tokens=8, lookup=False)
    assert hf.enable(model).generate(prompt(), max_new_tokens=8).tolist() == plain.tolist()
    assert caplog.text.count(f"transformers 5.99.0 is newer than {TRANSFORMERS.newest}") == 1


def test_both_doors_refuse_an_unsupported_version(unchecked, monkeypatch) -> None:
    monkeypatch.setattr(versions, "version", {"transformers": "5.3.0", "torch": TORCH.newest}.__getitem__)
    model = llama()
    with pytest.raises(ImportError, match=r"transformers 5\.3\.0 is installed"):
        hf.enable(model)
    assert not hf.is_enabled(model)
    with pytest.raises(ImportError, match=r"transformers 5\.3\.0 is installed"):
        model.generate(prompt(), max_new_tokens=8, custom_generate=hf.lookup_generate)
