"""The epoch that is kept, and what is said of it."""

from ds2.train.best_epoch import best_line, best_of

EPOCHS = [{"epoch": 1, "wer": 0.5, "dev_loss": 2.0}, {"epoch": 2, "wer": 0.4, "dev_loss": 3.0}]


def test_the_line_says_where_no_epoch_is_better_than_the_start() -> None:
    """By what chooses the epoch; of equal errors the loss decides, and other measures are not compared."""
    assert best_of(EPOCHS)["epoch"] == 2
    plain = "epoch 2 of 2 is the best on dev, by WER"
    assert best_line(EPOCHS, []) == best_line(EPOCHS, [{"epoch": 0, "wer": 0.41, "dev_loss": 1.0}]) == plain
    assert best_line(EPOCHS, [{"epoch": 0, "wer": 0.1, "per": 0.1, "dev_loss": 1.0}]) == plain
    worse = f"{plain}, but no better than epoch 0, the model that training began from"
    for start in (0.39, 3.0), (0.4, 3.0), (0.4, 2.9):
        assert best_line(EPOCHS, [{"epoch": 0, "wer": start[0], "dev_loss": start[1]}]) == worse
    phones = [{**epoch, "per": 0.2} for epoch in EPOCHS]
    assert best_line(phones, [{"epoch": 0, "wer": 0.9, "per": 0.1, "dev_loss": 9.0}]).startswith("epoch 1 of 2")
