"""Checks the built site: every link to a page, an anchor or a file of the site must lead somewhere.

    python docs/_links.py [site]

Links to other sites are counted, not followed.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["broken_links"]


class _Reader(HTMLParser):
    """Collects the anchors and the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif name in ("href", "src"):
                self.links.append(value)


def _read(path: Path) -> _Reader:
    reader = _Reader()
    reader.feed(path.read_text("utf-8"))
    return reader


def broken_links(site: Path) -> tuple[list[str], int, int]:
    """(broken links as ``page: link``, number of links inside the site, number of links that leave it)."""
    pages = {path.resolve(): _read(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts}
    broken, inside, outside = [], 0, 0
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside += 1
                continue
            inside += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{path.relative_to(site.resolve())}: {link}")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                broken.append(f"{path.relative_to(site.resolve())}: {link} (no such anchor)")
    return broken, inside, outside


def main() -> int:
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site")
    broken, inside, outside = broken_links(site)
    print("\n".join([*broken, f"{inside} links inside the site, {len(broken)} broken; {outside} links to other sites"]))
    return 1 if broken or not inside else 0


if __name__ == "__main__":
    sys.exit(main())
