"""What continuous integration runs, one environment per session: ``nox``, or ``nox -s tests``."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "tests", "docs"]

#: Tests of compiled code, which is what an old numba could break.
COMPILED = ("test_compile.py", "test_kernel_cache.py", "test_vectors.py", "test_structures.py")


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
    """Lines that the suite reaches, compiled code in its Python source."""
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
    """The site, warnings as errors."""
    session.install("-e", ".[dev]")
    session.run("sphinx-build", "-q", "-W", "--keep-going", "-b", "html", "docs", "site")


@nox.session
def wheel(session: nox.Session) -> None:
    """Build wheel and sdist, and run the demo from the installed wheel in an empty environment."""
    session.install("build")
    session.run("python", "-m", "build", "--outdir", "dist")
    session.run("python", "-m", "venv", "--clear", str(session.create_tmp() + "/clean"), external=True)
    python = f"{session.create_tmp()}/clean/bin/python"
    found = sorted(session.run("python", "-c", "import glob; print(*glob.glob('dist/*.whl'))", silent=True).split())
    session.run(python, "-m", "pip", "install", "--quiet", found[-1], external=True)
    session.run(python, "-m", "partwise", "demo", "--out", session.create_tmp() + "/demo", external=True)
