"""One file a command: a file put here that defines ``COMMAND`` adds one, and no other has to change."""
