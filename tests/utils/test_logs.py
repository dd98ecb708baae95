"""What the library logs, at the shell."""

import logging

import pytest

from ds2.utils.logs import shown_log


def test_messages_of_ds2_are_shown_while_the_context_lasts(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("ds2.train.trainer")
    with shown_log():
        logger.debug("a detail")
        logger.info("epoch 1: loss 2.5")
        logger.warning("3 utterances skipped")
        logging.getLogger("another.package").info("not ours")
    logger.info("after the end")
    assert capsys.readouterr().err == "epoch 1: loss 2.5\nds2: 3 utterances skipped\n"


def test_no_message_is_shown_twice_and_a_level_that_was_set_stays(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger("ds2")
    logger.setLevel(logging.WARNING)
    try:
        with shown_log():
            logger.info("epoch 1: loss 2.5")
            logger.warning("3 utterances skipped")
    finally:
        logger.setLevel(logging.NOTSET)
    assert capsys.readouterr().err == "ds2: 3 utterances skipped\n"
    assert not caplog.messages
