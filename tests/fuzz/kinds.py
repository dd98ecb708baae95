"""All that ds2 reads from outside, as rows of the table."""

from fuzz import archives, models, network, sounds, texts

KINDS = {
    "audio": sounds.KIND,
    "transcribe": sounds.TRANSCRIBE,
    "bundle": models.BUNDLE,
    "lm": models.LM,
    "arpa": models.ARPA,
    "checkpoint": models.CHECKPOINT,
    "manifest": texts.MANIFEST,
    "config": texts.CONFIG,
    "shard": archives.KIND,
    "http": network.HTTP,
    "socket": network.SOCKET,
}
NETWORK = ("http", "socket")  # those that attack a running server
