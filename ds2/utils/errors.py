"""The one exception that reaches a person: bad input, told in one line."""


class InputError(ValueError):
    """Bad input from outside: a file, a manifest line, a configuration key.

    The message is one line that names the file, line or key and says what to do about it.
    The command line prints it and exits with code 2; a library caller may catch it as ValueError.
    """
