"""The version of the package, for the rooms below its face."""

VERSION = "0.2.0"
