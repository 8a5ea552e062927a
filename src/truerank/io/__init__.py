"""Input and output: files of embeddings, labels, lists, trials, judgements and shards."""
