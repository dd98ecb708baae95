"""N-gram language models: estimation, files, mixtures, pruning, and the automaton that the search walks."""
