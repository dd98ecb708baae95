// The arguments of the kernels of ctc.cu, and the memory that they share.
#pragma once

#include <math.h>
#include <stdint.h>

#include "ctc_column.h"
#include "threads.h"

namespace ctc {

enum Type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

// What the caller passes. Pointers are to memory of the GPU; strides count elements.
struct Arguments {
    const void* logits;  // (B, T, V), outputs side by side
    void* gradient;      // as logits, or null: only the losses are wanted
    const int64_t* targets;
    const int64_t* target_lengths;  // (B,)
    const int64_t* input_lengths;   // (B,)
    const void* weights;            // (B,) factors of the gradient; float32, or float64 for float64 logits
    void* losses;                   // (B,) likewise
    void* workspace;                // of ds2_ctc_workspace()
    int64_t batch, frames, outputs, blank;
    int64_t batch_stride, frame_stride;
    int64_t most_labels;  // of an utterance that can be aligned: at most T, at most the width of padded targets
    int64_t targets_size, targets_width;  // width: of padded targets; 0: concatenated
    int32_t type;
};

enum Status { SOUND, NO_ALIGNMENT, WRONG };

constexpr int ROW_BLOCK = 256;  // threads that share a row, or eight rows
constexpr int MOST_WARPS = 8;   // of each direction
constexpr int MOST_POWER = 4;   // a thread holds up to 16 pairs
constexpr int BURST = AT_EASE;  // frames between two barriers

template <typename Real>
struct Workspace {
    int power, warps;           // pairs a thread holds: 2^power; warps of each direction
    int64_t sorted;             // power of two
    Scaled<Real>* records;      // (B, warps, T, record_size), see below
    Pair<Real>* meeting;
    int64_t *keys, *offsets;    // labels and their positions, sorted; where the labels of an utterance begin in targets
    int32_t *heads, *distinct;  // where each distinct label begins in keys, and past the last; their number
    int32_t *status, *unsound;  // unsound: a frame has no softmax
    int64_t bytes;
};

// A record: what the kernels share about one frame and the pairs of one warp, in this order:
//
//     probabilities of the labels | alpha or beta of each, later m of its posterior | probability of the blank, 3 unused
BOTH constexpr int record_size(int slots) { return 2 * slots + 4; }

template <typename Real>
__device__ Scaled<Real>* record_of(const Workspace<Real>& w, const Arguments& a, int b, int warp, int t) {
    const int row = (b * w.warps + warp) * int(a.frames) + t;
    return w.records + int64_t(row) * record_size(LANES << w.power);
}

template <typename Real>
Workspace<Real> lay_out(const Arguments& a) {
    Workspace<Real> w;
    const int64_t pairs = a.most_labels + 1, most_lanes = MOST_WARPS * LANES;
    for (w.power = pairs <= LANES ? 0 : 1; pairs > most_lanes << w.power;) ++w.power;
    const int64_t slots = LANES << w.power;
    w.warps = int((pairs + slots - 1) / slots);
    for (w.sorted = 1; w.sorted < a.most_labels;) w.sorted *= 2;
    char* next = static_cast<char*>(a.workspace);
    auto take = [&next](int64_t bytes) {
        char* const here = next;
        next += (bytes + 255) / 256 * 256;
        return static_cast<void*>(here);
    };
    const int64_t record = record_size(slots) * sizeof(Scaled<Real>);
    const int64_t margin = (BURST + 1) * record;  // before the first and after the last frame: is fetched, but not used
    char* const records = static_cast<char*>(take(a.batch * w.warps * a.frames * record + 2 * margin));
    w.records = reinterpret_cast<Scaled<Real>*>(records + margin);
    w.meeting = static_cast<Pair<Real>*>(take(a.batch * w.warps * slots * sizeof(Pair<Real>)));
    w.keys = static_cast<int64_t*>(take(a.batch * w.sorted * sizeof(int64_t)));
    w.heads = static_cast<int32_t*>(take(a.batch * (a.most_labels + 1) * sizeof(int32_t)));
    w.distinct = static_cast<int32_t*>(take(a.batch * sizeof(int32_t)));
    w.offsets = static_cast<int64_t*>(take(a.batch * sizeof(int64_t)));
    w.status = static_cast<int32_t*>(take(a.batch * sizeof(int32_t)));
    w.unsound = static_cast<int32_t*>(take(a.batch * sizeof(int32_t)));
    w.bytes = next - static_cast<char*>(a.workspace);
    return w;
}

BOTH int64_t label_of(int64_t key) { return key >> 32; }
BOTH int position_of(int64_t key) { return int(key & 0xffffffff); }

constexpr int64_t NO_KEY = INT64_MAX;

}  // namespace ctc
