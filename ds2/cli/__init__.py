"""The command line: main.py runs a command, command_parser.py finds it, commands.py lists them all."""
