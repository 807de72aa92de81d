"""Phrase structure: bracketed trees, grammars read off treebanks, and the parsers of them."""
