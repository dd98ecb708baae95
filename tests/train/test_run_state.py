"""The figures of an epoch, by hand."""

from ds2.train.run_state import RunState

VALIDATION = {"dev_loss": 3.0, "wer": 0.25, "cer": 0.1}


def test_an_epochs_record_is_that_of_all_ranks() -> None:
    """12 nats over 4 utterances and 8 over 1, in 2 seconds; 3 and 5 MB sent in 4 minibatches.

    The ranks wait 0.8 seconds together: each 0.1 seconds in each minibatch. They use 3.5 seconds of processors.
    """
    parts = [
        RunState(loss_sum=12.0, utterances=4, processor=2.0, sent=3_000_000, waiting=0.6, skipped=["a"]),
        RunState(
            loss_sum=8.0, utterances=1, processor=1.5, sent=5_000_000, waiting=0.2, communication=0.4, skipped=["b"]
        ),
    ]
    joined = RunState(epoch=1, batch=4, step=9, seconds=2.0).joined(parts)
    record = joined.record(VALIDATION, 1e-3, len(parts))
    assert record == {
        "epoch": 2,
        "step": 9,
        "loss": 4.0,
        **VALIDATION,
        "learning_rate": 1e-3,
        "seconds": 2.0,
        "utterances_per_second": 2.5,
        "processor_seconds": 3.5,
        "minibatches": 4,
        "megabytes_per_minibatch": 2.0,
        "waiting_seconds_per_minibatch": 0.1,
        "communication_seconds_per_minibatch": 0.05,
        "skipped": 2,
    }
    assert joined.skipped == ["a", "b"]


def test_the_next_epoch_begins_with_nothing_done_but_keeps_the_best() -> None:
    state = RunState(
        epoch=1,
        batch=7,
        step=9,
        loss_sum=3.0,
        utterances=2,
        seconds=5.0,
        processor=4.0,
        sent=8,
        skipped=["a"],
        waiting=1.0,
        communication=1.0,
        best=(0.1, 2.0),
    )
    assert state.next_epoch() == RunState(epoch=2, step=9, best=(0.1, 2.0))
