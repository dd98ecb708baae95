#!/usr/bin/env bash
# What augmentation and synthetic speech are worth: a smaller model, 6 epochs each, some 30 minutes on one CPU core.
#     recipes/speechocean762/compare.sh                 after run.sh has prepared the data
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=recipes/speechocean762/runs spoken=$PWD/recipes/synthetic/data/english

train() {
    ds2 train recipes/speechocean762/train.toml --output "$runs/compare_$1" \
        --set model.recurrent_layers=3 --set model.hidden=160 "${@:2}"
}

train augmented --set epochs=6
train plain --set epochs=6 --set "augment.speed=[1.0]" --set "augment.frequency_warp=[1.0,1.0]" \
    --set augment.reverberation_probability=0 --set augment.noise_probability=0 --set augment.equalizer_probability=0 \
    --set augment.channel_probability=0 --set augment.frequency_masks=0 --set augment.time_masks=0 --set "augment.gain=[0.0,0.0]"
train synthetic --set epochs=2 --set "data.train=['$spoken/train.jsonl']" --set "data.dev='$spoken/dev.jsonl'"
train pretrained --set epochs=6 --set "start_from='runs/compare_synthetic/best.safetensors'" --set sortagrad=false \
    --set optimizer.learning_rate=1.5e-3

for name in plain augmented pretrained; do
    echo "$name:"
    ds2 eval recipes/speechocean762/data/dev.jsonl --model "$runs/compare_$name/best.safetensors" --beam 0
    ds2 eval recipes/speechocean762/data/dev.jsonl --model "$runs/compare_$name/best.safetensors" \
        --lm "$runs/lm.arpa.gz" --lm-weight 0.45 --word-bonus 0.25
done
