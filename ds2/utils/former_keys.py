"""The keys of TOML files that were renamed since version 0.1, for each dataclass: accepted for one version."""

FORMER_KEYS = {  # former key: the key of today
    "AugmentConfig": {
        "reverberation_share": "reverberation_probability",
        "rooms": "impulse_responses",
        "noise_share": "noise_probability",
        "synthetic_noise_share": "synthetic_noise_probability",
        "equalizer_share": "equalizer_probability",
        "line_share": "channel_probability",
        "lines": "channels",
    },
    "BeamConfig": {"best": "nbest"},
    "LiveConfig": {
        "partial_every": "partial_interval_seconds",
        "pause": "pause_seconds",
        "long_utterance": "long_segment_seconds",
        "long_utterance_seconds": "long_segment_seconds",
        "short_pause": "short_pause_seconds",
    },
    "Limits": {
        "backlog": "backlog_seconds",
        "idle": "idle_seconds",
        "duration": "stream_seconds",
        "message": "message_bytes",
        "upload": "upload_bytes",
        "upload_duration": "upload_audio_seconds",
        "rate": "streams_per_minute",
        "wait": "max_queue_seconds",
        "answer": "worker_timeout_seconds",
        "drain": "drain_seconds",
    },
    "ServeConfig": {"keys": "api_keys"},
    "DispatchConfig": {"batch": "batch_streams", "bound": "queue_chunks"},
    "OptimizerConfig": {"surge": "gradient_spike", "average_decay": "ema_decay"},
    "TrainConfig": {"growing": "curriculum_epochs"},
}

REPLACED_KEYS = {  # former key, whose value is ignored: the key that took its place
    "TrainConfig": {"checkpoint_every": "checkpoint_minutes"},
}
