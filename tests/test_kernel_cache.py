"""Machine code on disk: never stale, never somebody else's, never recompiled without need."""

from __future__ import annotations

import gc
import json
import logging
import os
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import numba
import pytest
from problems import tiny
from test_compile import run_both

import partwise
from partwise import _cache_folder
from partwise._compile import kernel
from partwise._kernel_contents import kernel_hash
from partwise.problem import block_losses

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="compilation is switched off")  # type: ignore[attr-defined]

# A package that knows partwise, and that partwise knows nothing of: a generic function, structures in files of their
# own, helpers, constants, and vector code.
TOYS = {
    "__init__": "",
    "base": """
from partwise._compile import Generic, composite, kernel
from toys import constants
from toys.helpers import step as forward

@Generic
def area(shape, scale):
    '''scale times the area'''

@composite
def twice(shape, scale):
    return 2.0 * area(shape, scale)

@kernel
def total(shape, scale):
    return forward(twice(shape, scale)) + constants.NOTHING
""",
    "constants": "NOTHING = 0.0\nPI = 3.0\n",
    "helpers": """
from partwise._compile import Kernel, kernel
from partwise._kernel_contents import kernel_hash
from toys.plain import lift

@kernel
def step(x):  # a comment
    return lift(x) + 1.0
""",
    "plain": "def lift(x):\n    return x\n",
    "lifting": """
from numba.extending import overload
from toys.plain import lift

@overload(lift)
def lift_compiled(x):
    def code(x):
        return x
    return code
""",
    "square": """
from typing import NamedTuple
from toys.base import area
import toys.lifting

class Square(NamedTuple):
    side: float

@area.register(Square)
def _(shape, scale):
    return scale * shape.side * shape.side
""",
    "disc": """
from typing import NamedTuple
from toys.base import area
from toys.constants import PI
import toys.lifting

class Disc(NamedTuple):
    radius: float

@area.register(Disc)
def _(shape, scale):
    return scale * PI * shape.radius * shape.radius
""",
    "later": "",
}

QUESTION = """
import json
from toys.base import total
from toys.square import Square
from toys.disc import Disc
import toys.later

answers = [total(Square(1.0), 1.0), total(Disc(1.0), 1.0)]
hits = total.dispatcher.stats.cache_hits
kinds = {signature[0].instance_class.__name__: count for signature, count in hits.items()}
print(json.dumps([*answers, kinds.get("Square", 0), kinds.get("Disc", 0)]))
"""


class Toys:
    """The package on disk, edited between processes."""

    errors = ""  # what the last process wrote to standard error

    def __init__(self, folder: Path) -> None:
        self.folder, self.cache = folder, folder / "cache"
        (folder / "toys").mkdir()
        for name, text in TOYS.items():
            (folder / "toys" / f"{name}.py").write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.folder / "toys" / f"{name}.py"
        assert not old or old in path.read_text()
        path.write_text(path.read_text().replace(old, new) if old else new)

    def ask(self, script: str = QUESTION, **environment: str) -> Any:
        """Values for the square and for the disc; whether each of the two came from the disk."""
        path = [self.folder, Path(partwise.__file__).parents[1]]
        output, self.errors = run_both(script, path, PARTWISE_CACHE_DIR=str(self.cache), **environment)
        return json.loads(output)


@pytest.fixture
def toys(tmp_path: Path) -> Toys:
    return Toys(tmp_path)


def test_what_is_edited_is_compiled_again_and_nothing_else(toys: Toys) -> None:
    assert toys.ask() == [3.0, 7.0, 0, 0]
    toys.edit("helpers", "# a comment", "# another comment\n")
    toys.edit("base", "scale times the area", "the area times scale")
    assert toys.ask() == [3.0, 7.0, 1, 1], "comments and docstrings are not compiled"
    toys.edit("square", "scale * shape.side", "10 * scale * shape.side")
    assert toys.ask() == [21.0, 7.0, 0, 1], "a structure outside the package; another one stays"
    toys.edit("constants", "PI = 3.0", "PI = 4.0")
    assert toys.ask() == [21.0, 9.0, 1, 0], "a constant imported by one structure's file"
    toys.edit("constants", "NOTHING = 0.0", "NOTHING = 100.0")
    assert toys.ask() == [121.0, 109.0, 0, 0], "a constant of a module"
    toys.edit("helpers", "1.0", "5.0")
    assert toys.ask() == [125.0, 113.0, 0, 0], "a callee in another file, under another name"
    toys.edit("lifting", "return x\n", "return 2.0 * x\n")
    assert toys.ask() == [145.0, 121.0, 0, 0], "code given for a function of another file"
    toys.edit("helpers", "5.0", "1.0")
    assert toys.ask() == [141.0, 117.0, 0, 0]
    toys.edit("helpers", "1.0", "5.0")
    assert toys.ask() == [145.0, 121.0, 1, 1], "the way it was: that is still there"


def test_an_implementation_registered_later_by_another_file(toys: Toys) -> None:
    assert toys.ask() == [3.0, 7.0, 0, 0]
    other = "from toys.base import area\nfrom toys.square import Square\n\n@area.register(Square)\n"
    toys.edit("later", "", f"{other}def _(shape, scale):\n    return 50.0\n")
    assert toys.ask() == [101.0, 7.0, 0, 1]


def test_a_file_edited_after_it_was_imported(toys: Toys) -> None:
    """The process that runs the old code must not leave it for those that import the new."""
    edit = (
        "import toys.square, toys.lifting, pathlib; path = pathlib.Path(toys.square.__file__); "
        "path.write_text(path.read_text().replace('scale * shape.side', '10 * scale * shape.side'))\n"
    )
    assert toys.ask(edit + QUESTION) == [3.0, 7.0, 0, 0]
    assert toys.ask() == [21.0, 7.0, 0, 1]


def test_a_file_with_the_name_of_one_of_pythons(toys: Toys) -> None:
    (toys.folder / "code.py").write_text(
        "from partwise._compile import kernel\n@kernel\ndef f(x):\n    return x + 1.0\n"
    )
    script = "import json, code; print(json.dumps(code.f(1.0)))"
    assert toys.ask(script) == 2.0
    (toys.folder / "code.py").write_text(
        "from partwise._compile import kernel\n@kernel\ndef f(x):\n    return x + 2.0\n"
    )
    assert toys.ask(script) == 3.0


def test_what_has_no_source_is_compiled_without_a_cache(toys: Toys) -> None:
    script = """
import json
from partwise._compile import Kernel, kernel
from partwise._kernel_contents import kernel_hash
def f(x):
    return x + STEP
scope = {"STEP": 1.0, "__name__": "__main__"}
exec("def g(x):\\n    return x + STEP\\n", scope)
STEP = 1.0
print(json.dumps([kernel(f)(1.0), kernel(scope["g"])(1.0)]))
"""
    assert toys.ask(script) == [2.0, 2.0]
    assert [name for name in os.listdir(toys.cache / "kernels") if name.endswith(".code")] == []


def test_the_hash_is_the_same_in_every_process(toys: Toys) -> None:
    script = """
import json, numba, numpy as np
from partwise._kernel_contents import kernel_hash
from partwise.problem import block_losses
from partwise.structures.chain import Chain
from partwise.features import transitions
arguments = [numba.typeof(Chain([2], 9).pack), numba.typeof(transitions.TiedTransitions(1, np.zeros(2, int), 0))]
print(json.dumps([kernel_hash(block_losses.py_func, arguments, {}, None)]))
"""
    assert len({toys.ask(script, PYTHONHASHSEED=str(seed))[0] for seed in range(5)}) == 1


def test_the_first_call_keeps_nothing_of_its_callers() -> None:
    """What cannot be described is remembered in words; as an error, it would hold the data of every caller."""

    class Data:
        pass

    def first_call() -> weakref.ref[Data]:
        data = Data()
        kernel_hash(block_losses.py_func, arguments, {}, None)
        return weakref.ref(data)

    arguments = [numba.typeof(tiny(seed=1, lengths=(3, 2)).problem("crf").data)]
    gc.collect()
    gc.disable()  # which would find the circle sooner or later
    try:
        assert first_call()() is None
    finally:
        gc.enable()


EVERY_KERNEL = """
import gc, importlib, pkgutil
import partwise
from partwise._compile import Kernel
from partwise._kernel_contents import kernel_hash
for module in pkgutil.walk_packages(partwise.__path__, "partwise."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
kernels = [o for o in gc.get_objects() if issubclass(type(o), Kernel)]  # isinstance wakes dead proxies
functions = [o.py_func for o in kernels if o.py_func.__module__.startswith("partwise.")]
print(len({kernel_hash(function, (), {}, None) for function in functions}))
"""


def test_every_kernel_of_the_package_can_be_kept() -> None:
    """It is known what each contains, whatever structures there are; in a process where no other test has been."""
    root = str(Path(partwise.__file__).parents[1])
    child = subprocess.run(
        [sys.executable, "-c", EVERY_KERNEL], env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 100


# --------------------------------------------------------------------------------------------------
# The folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PARTWISE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kernels"


def test_the_folder_is_private(folder: Path) -> None:
    assert _cache_folder.cache_dir.__wrapped__() == str(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert _cache_folder.cache_dir.__wrapped__() == str(folder), "and is found again"


def open_to_others(folder: Path) -> str:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return "open to others"


def a_link(folder: Path) -> str:
    folder.parent.mkdir(parents=True)
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(folder.parent / "elsewhere")
    return "not a folder"


def in_an_open_folder(folder: Path) -> str:
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o777)
    return "written to by others"


def below_a_file(folder: Path) -> str:
    folder.parent.touch()
    return "exists"


def of_another_user(folder: Path) -> str:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 54321, 54321)
    return "belongs to user 54321"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
@pytest.mark.parametrize("make", [open_to_others, a_link, in_an_open_folder, below_a_file, of_another_user])
def test_a_folder_that_is_not_private_is_not_used(make: Any, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    reason = make(folder)
    with caplog.at_level(logging.WARNING, "partwise"):
        assert _cache_folder.cache_dir.__wrapped__() is None
    assert "every process compiles again" in caplog.text and "PARTWISE_CACHE_DIR" in caplog.text
    assert reason in caplog.text


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that nobody can write to")
def test_a_user_without_an_account_or_a_home() -> None:
    script = """
import logging, pwd
def unknown(uid):
    raise KeyError(f"getpwuid(): uid not found: {uid}")
pwd.getpwuid = unknown
logging.basicConfig()
import numpy as np
from partwise._math import dot
print(dot(np.ones(2), np.ones(2)))
"""
    folders = ("PARTWISE_CACHE_DIR", "XDG_CACHE_HOME", "HOME")
    root = Path(partwise.__file__).parents[1]
    environment = {name: value for name, value in os.environ.items() if name not in folders}
    for home in ({}, {"HOME": "/proc/self"}):
        child = subprocess.run(
            [sys.executable, "-c", script], env={**environment, **home, "PYTHONPATH": str(root)},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert child.stdout == "2.0\n", child.stderr
        assert "every process compiles again" in child.stderr


# --------------------------------------------------------------------------------------------------
# Files


def test_damaged_files_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "f.kernel"
    _cache_folder.write(str(path), b"data")
    assert _cache_folder.read(str(path)) == b"data"
    data = bytearray(path.read_bytes())
    data[-2] ^= 1
    path.write_bytes(data)
    assert _cache_folder.read(str(path)) is None
    path.write_bytes(b"")
    assert _cache_folder.read(str(path)) is None
    assert _cache_folder.read(str(tmp_path / "missing")) is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["f.kernel"], "no drafts are left"


def test_what_is_not_used_for_thirty_days_goes(folder: Path) -> None:
    folder.mkdir(parents=True)
    month, day = time.time() - 31 * 86400, time.time() - 2 * 86400
    for name in ("old.kernel", "used.kernel", "new.kernel"):
        _cache_folder.write(str(folder / name), name.encode())
        os.utime(folder / name, (month, month))
    assert _cache_folder.read(str(folder / "used.kernel")) == b"used.kernel"
    os.utime(folder / "new.kernel", (day, day))
    for name, changed in (("0123456789abcdef", month), ("fedcba9876543210", day)):  # from before kernels had a folder
        (folder.parent / name / "deep").mkdir(parents=True)
        (folder.parent / name / "deep" / "f.nbi").touch()
        os.utime(folder.parent / name / "deep" / "f.nbi", (changed, changed))
    (folder.parent / "notes").mkdir()
    _cache_folder.clean(str(folder))
    assert sorted(os.listdir(folder)) == ["cleaned", "new.kernel", "used.kernel"]
    assert sorted(os.listdir(folder.parent)) == ["fedcba9876543210", "kernels", "notes"]
    os.utime(folder / "new.kernel", (month, month))
    _cache_folder.clean(str(folder))
    assert "new.kernel" in os.listdir(folder), "once a day is enough"


def test_caching_goes_on_when_the_disk_is_full(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    def third(x):  # type: ignore[no-untyped-def]
        return x / 3.0

    monkeypatch.setattr(_cache_folder, "write", full)
    monkeypatch.setattr(_cache_folder, "read", lambda path: None)
    with caplog.at_level(logging.WARNING, "partwise"):
        assert kernel(third)(6.0) == 2.0
    assert "No space left" in caplog.text


# --------------------------------------------------------------------------------------------------
# numba that is not what it was

ANSWER = """
import json
import partwise._overrides as overrides
from toys.base import total
from toys.square import Square
answer = total(Square(1.0), 1.0)
print(json.dumps([answer, overrides.overrides_fit(), sum(total.dispatcher.stats.cache_hits.values())]))
"""

CHANGES = {
    "a method is gone": "from numba.core.compiler_machinery import PassManager; del PassManager.add_pass_after",
    "a class is gone": "import numba.core.typed_passes; del numba.core.typed_passes.AnnotateTypes",
    "the test fails": "",
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_unknown_numba_is_used_plainly(toys: Toys, change: str) -> None:
    """The same answers, kept on disk by numba's own cache, and never stale."""
    script = CHANGES[change] + ANSWER
    if change == "the test fails":
        script = "import partwise._self_test as t\ndef check():\n    1 / 0\nt.check = check\n" + ANSWER
    assert toys.ask(script) == [3.0, False, 0]
    assert toys.ask(script) == [3.0, False, 1]
    toys.edit("helpers", "1.0", "5.0")
    assert toys.ask(script) == [7.0, False, 0]
    assert "is not known to partwise" in toys.errors


def test_a_known_numba_is_tested_once(toys: Toys) -> None:
    assert toys.ask(ANSWER) == [3.0, True, 0]
    script = "import sys\n" + ANSWER + "assert 'partwise._self_test' not in sys.modules"
    assert toys.ask(script) == [3.0, True, 1]
