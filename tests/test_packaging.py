"""One distribution, three packages, and nothing at import time that is not needed."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numba
import pytest

import lookahead

ROOT = Path(__file__).parents[1]


def python(*arguments: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def test_the_package_is_the_real_one() -> None:
    assert lookahead.__file__ is not None
    assert lookahead.__version__


@pytest.mark.parametrize("name", lookahead.__all__)
def test_every_public_name_is_there(name) -> None:
    assert getattr(lookahead, name).__name__ == name
    assert name in dir(lookahead)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        lookahead.no_such_name  # noqa: B018


def test_importing_the_package_imports_no_framework(tmp_path) -> None:
    code = (
        "import sys, lookahead, lookahead.cli.main; "
        "print([m for m in ('torch', 'transformers', 'numba', 'numpy', 'rich') if m in sys.modules])"
    )
    result = python("-c", code, cwd=tmp_path)
    assert result.stdout.strip() == "[]", result.stderr


def test_the_core_knows_no_framework() -> None:
    names = sorted(path.stem for path in (ROOT / "lookahead").glob("*.py") if path.stem != "__init__")
    imports = "; ".join(f"import lookahead.{name}" for name in names)
    result = python("-c", f"import sys; {imports}; print([m for m in ('transformers', 'rich') if m in sys.modules])")
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize("name", ["plugins", "cli"])
def test_a_second_copy_of_a_package_is_refused(name) -> None:
    result = python("-c", f"import {name}")
    assert f"this package is lookahead.{name}" in result.stderr


def test_no_new_folder_is_forgotten() -> None:
    """Packages are listed by hand, so a folder below them would be missing from the wheel."""
    for name in ("lookahead", "plugins", "cli"):
        folders = {path.parent for path in (ROOT / name).rglob("*.py")}
        assert folders == {ROOT / name}


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
@pytest.mark.parametrize("home", ["site-packages", "checkout"])
def test_an_installed_package_keeps_compiled_kernels_out_of_its_folder(tmp_path, home) -> None:
    """A folder that `pip uninstall` leaves in site-packages would hide a later checkout."""
    copy = tmp_path / home / "lookahead"
    shutil.copytree(ROOT / "lookahead", copy, ignore=shutil.ignore_patterns("__pycache__"))
    code = (
        "import numpy as np; from lookahead.batch_costs import POINTS, begin, __file__ as place; "
        "begin(np.zeros((POINTS, 8)), np.zeros(2), 1); print(place, sum(begin.stats.cache_hits.values()))"
    )
    cache = tmp_path / "cache"
    settings = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    settings |= {"PYTHONPATH": str(copy.parent), "XDG_CACHE_HOME": str(cache)}
    for hits in (0, 1):
        result = python("-c", code, cwd=tmp_path, env=settings)
        assert result.stdout.split() == [str(copy / "batch_costs.py"), str(hits)], result.stderr
    beside, elsewhere = list(copy.rglob("*.nbc")), list(cache.rglob("*.nbc"))
    assert (bool(beside), bool(elsewhere)) == (home == "checkout", home != "checkout")


@pytest.mark.slow
def test_the_wheel_holds_every_module_and_nothing_else(tmp_path) -> None:
    result = python("-m", "pip", "wheel", "-q", "--no-deps", "-w", str(tmp_path), str(ROOT))
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("specdec_lookup-*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {f"lookahead/{path.name}" for path in (ROOT / "lookahead").glob("*.py")} | {"lookahead/py.typed"}
    for name in ("plugins", "cli"):
        wanted |= {f"lookahead/{name}/{path.name}" for path in (ROOT / name).glob("*.py")}
    wanted |= {f"lookahead/cli/data/{path.name}" for path in (ROOT / "cli" / "data").iterdir()}
    assert {"lookahead/cli/data/editor.safetensors", "lookahead/cli/data/EDITOR.md"} <= wanted
    assert packed == wanted
