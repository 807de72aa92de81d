"""What continuous integration runs, one environment per session: ``nox``, or ``nox -s tests``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests", "docs"]

#: Tests of compiled code, which is what an old numba could break.
COMPILED = ("test_compile.py", "test_kernel_cache.py", "test_vectors.py", "test_structures.py")

#: Tests that need nothing but the package, for an installed wheel.
INSTALLED = (
    "test_tags.py", "test_columns.py", "test_column_files.py", "test_template_language.py", "test_storage_writing.py",
    "test_storage_strings.py", "test_console.py", "test_metrics_chunks.py", "test_topics_text.py", "test_settings.py",
    "test_vectors.py", "test_compile.py",
)  # fmt: skip


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, format and types."""
    session.install("-e", ".[dev]")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """The whole suite, doctests included."""
    session.install("-e", ".[dev]")
    session.run("pytest", "-q", "-n", "2", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Lines of Python that the suite reaches; kernels, which run as machine code, are left out (see pyproject.toml)."""
    session.install("-e", ".[dev]", "pytest-cov")
    session.run(
        "pytest",
        "-q",
        "-n",
        "2",
        "--cov=partwise",
        "--cov-report=term-missing:skip-covered",
        *session.posargs,
    )


@nox.session
def oldest(session: nox.Session) -> None:
    """Compiled code on the oldest numba that is supported."""
    session.install("-e", ".", "numba==0.60.0", "pytest", "pytest-xdist", "hypothesis")
    session.run("pytest", "-q", *(f"tests/{name}" for name in COMPILED))


@nox.session
def docs(session: nox.Session) -> None:
    """The site, with warnings as errors, and its links."""
    session.install("-e", ".[dev]")
    session.run("sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "site")
    session.run("python", "docs/_links.py", "site")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build wheel and sdist; from the wheel, installed into an empty environment, take the tour and run some tests."""
    session.install("build")
    session.run("python", "-m", "build", "--outdir", "dist")
    found = sorted(Path("dist").glob("*.whl"))[-1].resolve()
    folder = Path(session.create_tmp()).resolve()
    session.run("python", "-m", "venv", "--clear", str(folder / "clean"))
    python = str(folder / "clean" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    session.run(python, "-m", "pip", "install", "--quiet", str(found), external=True)
    tests = folder / "tests"  # away from the checkout, so that the wheel is what is imported
    shutil.copytree("tests", tests, dirs_exist_ok=True)
    with session.chdir(folder):
        session.run(python, "-m", "partwise", "demo", "--out", "demo", external=True)
        session.run(python, "-m", "pip", "install", "--quiet", "pytest", "hypothesis", external=True)
        options = ("--import-mode=importlib", "-o", "pythonpath=tests", "-p", "no:cacheprovider")
        session.run(python, "-m", "pytest", "-q", *options, *(f"tests/{name}" for name in INSTALLED), external=True)
