"""The collector: takes reports over HTTP, keeps them, counts each once, and answers."""
