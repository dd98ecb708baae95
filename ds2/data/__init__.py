"""From files to batches of tensors: audio, manifests, the order of training, augmentation."""
