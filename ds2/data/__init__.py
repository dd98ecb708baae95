"""Turns files into batches of tensors: audio, manifests, the order of training, augmentation."""
