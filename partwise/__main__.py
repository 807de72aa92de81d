"""``python -m partwise``."""

from partwise.cli import main

raise SystemExit(main())
