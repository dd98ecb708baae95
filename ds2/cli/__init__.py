"""The command line: main.py runs a command, commands.py lists them."""
