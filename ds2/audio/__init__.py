"""Files and samples of audio: reading, resampling, augmentation, sounds without speech."""
