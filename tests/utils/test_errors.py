"""Messages of errors."""

import pickle

from ds2.utils.errors import LONGEST, InputError, ParameterError, some_of


def test_a_message_is_one_line() -> None:
    assert str(InputError("a\nb\u2028c\udcff\x1b.wav: empty")) == r"a\nb\u2028c\udcff\x1b.wav: empty"
    assert str(InputError("äöü 音 fine")) == "äöü 音 fine"


def test_a_long_message_loses_its_middle() -> None:
    message = str(InputError(f"line 3: {'x' * 100_000}: not a number"))
    assert len(message) == LONGEST + len(" ... ")
    assert message.startswith("line 3: xxx")
    assert message.endswith("xxx: not a number")


def test_errors_travel_between_processes() -> None:
    error = pickle.loads(pickle.dumps(ParameterError("device", "none here\n")))
    assert (error.parameter, error.reason, str(error)) == ("device", "none here\n", r"device: none here\n")
    assert str(pickle.loads(pickle.dumps(InputError("a\nb")))) == r"a\nb"


def test_a_list_names_its_first_items_and_counts_the_rest() -> None:
    assert some_of(["a", "b", "c"], kind="word") == "a, b, c"
    assert some_of(["a", "b", "c", "d"], kind="word") == "a, b, c and 1 more word"
    assert some_of(["a", "b", "c", "d", "e"], kind="word") == "a, b, c and 2 more words"
    assert some_of(["a", "b", "c", "d"]) == "a, b, c and 1 more"
