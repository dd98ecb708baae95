// The first kernel of ctc.cu: one block an utterance. Are lengths and labels sound? Where does each label stand?
#pragma once

#include "ctc_workspace.h"

namespace ctc {

constexpr int SORTING = 256;   // threads that sort
constexpr int AT_HAND = 2048;  // keys that are sorted in shared memory

// A bitonic network: keys of a power of two, by all threads of a block.
__device__ inline void sort(int64_t* keys, int64_t size) {
    for (int64_t run = 2; run <= size; run *= 2) {
        for (int64_t distance = run / 2; distance > 0; distance /= 2) {
            wait_for_block();
            for (int64_t low = thread(); low < size; low += threads()) {
                const int64_t high = low ^ distance;
                if (high > low && (keys[low] > keys[high]) == ((low & run) == 0)) {
                    const int64_t key = keys[low];
                    keys[low] = keys[high], keys[high] = key;
                }
            }
        }
    }
    wait_for_block();
}

// Where the labels of utterance b begin; in `sums` the threads of the block add up.
__device__ inline int64_t offset_of_targets(const Arguments& a, int64_t b, int64_t* sums) {
    if (a.targets_width) return b * a.targets_width;
    sums[thread()] = 0;
    for (int64_t i = thread(); i < b; i += threads()) sums[thread()] += a.target_lengths[i];
    wait_for_block();
    int64_t offset = 0;
    for (int i = 0; i < threads(); ++i) offset += sums[i];
    return offset;
}

// Where each distinct label begins in the sorted keys, and past the last; returns how many there are, in the last thread.
__device__ inline int find_heads(const int64_t* keys, int count, int32_t* heads, int* found) {
    const int each = (count + threads() - 1) / threads(), first = thread() * each;
    const int end = first + each < count ? first + each : count;
    auto is_head = [keys](int i) { return i == 0 || label_of(keys[i]) != label_of(keys[i - 1]); };
    found[thread()] = 0;
    for (int i = first; i < end; ++i) found[thread()] += is_head(i);
    wait_for_block();
    int head = 0;
    for (int i = 0; i < thread(); ++i) head += found[i];
    for (int i = first; i < end; ++i) {
        if (is_head(i)) heads[head++] = i;
    }
    if (thread() == threads() - 1) heads[head] = count;
    return head;
}

template <typename Real>
__global__ void check(Arguments a, Workspace<Real> w) {
    __shared__ int repeated[SORTING], wrong[SORTING], found[SORTING];
    __shared__ int64_t sums[SORTING], at_hand[AT_HAND];
    const int64_t b = block(), frames = a.input_lengths[b], labels = a.target_lengths[b];
    const int64_t first = offset_of_targets(a, b, sums);
    const int64_t end = a.targets_width ? first + a.targets_width : a.targets_size;
    const bool inside = frames >= 0 && frames <= a.frames && labels >= 0 && first >= 0 && first + labels <= end;
    // More labels than frames of any utterance: there is no alignment, and no memory for them.
    const int64_t count = inside && labels <= a.most_labels ? labels : 0;
    repeated[thread()] = 0, wrong[thread()] = !inside;
    int64_t* const kept = w.keys + b * w.sorted;
    int64_t* const keys = w.sorted <= AT_HAND ? at_hand : kept;
    for (int64_t i = thread(); inside && i < labels; i += threads()) {
        const int64_t label = a.targets[first + i];
        wrong[thread()] |= label < 0 || label >= a.outputs || label == a.blank;
        repeated[thread()] += i > 0 && label == a.targets[first + i - 1];
    }
    for (int64_t i = thread(); i < w.sorted; i += threads()) keys[i] = i < count ? a.targets[first + i] << 32 | i : NO_KEY;
    sort(keys, w.sorted);
    for (int64_t i = thread(); i < count; i += threads()) kept[i] = keys[i];
    const int distinct = find_heads(keys, int(count), w.heads + b * (a.most_labels + 1), found);
    if (thread() != threads() - 1) return;
    int64_t needed = labels;
    bool sound = true;
    for (int i = 0; i < threads(); ++i) needed += repeated[i], sound = sound && !wrong[i];
    w.offsets[b] = first;
    w.distinct[b] = distinct;
    w.unsound[b] = 0;
    w.status[b] = !sound ? WRONG : needed > frames ? NO_ALIGNMENT : SOUND;
}

}  // namespace ctc
