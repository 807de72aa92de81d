"""Learning as search optimisation: search problems, queues, beam search, updates inside the search."""
