"""One file per command: any file here that defines ``COMMAND`` adds one, with no change elsewhere."""
