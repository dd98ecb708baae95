"""Turns corpora into batches of tensors: manifests, layouts, the order of training."""
