"""All that ds2 reads from outside, as rows of the table."""

from fuzz import (
    archives,
    boxes,
    commands,
    containers,
    databases,
    ebml,
    models,
    network,
    runs,
    sounds,
    tables,
    texts,
    urls,
)

KINDS = {
    "audio": sounds.KIND,
    "webm": containers.KIND,
    "ebml": ebml.KIND,
    "boxes": boxes.KIND,
    "transcribe": sounds.TRANSCRIBE,
    "bundle": models.BUNDLE,
    "onnx": models.ONNX,
    "lm": models.LM,
    "arpa": models.ARPA,
    "checkpoint": models.CHECKPOINT,
    "run": runs.KIND,
    "study": databases.KIND,
    "command": commands.KIND,
    "manifest": texts.MANIFEST,
    "config": texts.CONFIG,
    "corpus": texts.CORPUS,
    "compiled": tables.COMPILED,
    "parquet": tables.PARQUET,
    "rows": tables.PARQUET_MANIFEST,
    "shard": archives.KIND,
    "url": urls.KIND,
    "http": network.HTTP,
    "socket": network.SOCKET,
}
NETWORK = ("http", "socket")  # those that attack a running server
SLOW = ("run", "study", "command")  # for `make fuzz` alone
