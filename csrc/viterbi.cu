// The best path through CTC's trellis on the GPU, for recordings of any length: a wave of warps, then the way back.
//
//     pairs      frames 0 .. K | K .. 2K | ...        A warp holds TILE pairs of states, a blank and the label after
//     0 .. 255      wave 0     | wave 1  | wave 2     it, in registers and takes them through a block of K frames. It
//     256 .. 511    wave 1     | wave 2  | ...        waits for none: what it needs of the pair before its first one,
//     512 .. 767    wave 2     | ...                  at every frame, was stored by the wave before.
//
//     trace      <------------ <-------- <-----       One block of threads, block of frames by block of frames: from the
//                                                     column kept before it the scores are computed again, with
//                                                     pointers, for the few states that the path can come from.
//
// Scores are float64, as on the CPU (ds2/ctc/viterbi_cpu.py): only maxima and sums, so both find the same path, bit by bit.
#include <math.h>
#include <stdint.h>

#include "threads.h"

namespace viterbi {

constexpr int LANES = 32, PAIRS = 8, TILE = LANES * PAIRS;
constexpr int LONGEST_BLOCK = 1024;  // frames: what `trace` holds in shared memory
constexpr int TRACERS = 512, FILLERS = 256;

enum Pointer : uint8_t { STAY, FROM_BLANK, FROM_LABEL, BLANK_FROM_LABEL = 4 };  // of the label, and a bit of the blank

// What the caller passes. Pointers are to memory of the GPU.
struct Arguments {
    const float* log_probs;  // (T, V)
    const int64_t* labels;   // (L,)
    int64_t* path;           // (T,) receives the label of each frame, 0..L-1; -1: a blank
    double* score;           // receives the path's log-probability
    void* workspace;         // of ds2_viterbi_workspace()
    int64_t frames, outputs, count, blank;
    int64_t block;  // frames, 1..LONGEST_BLOCK
};

struct Pair {
    double blank, label;
};

struct Workspace {
    int64_t tiles, blocks;
    Pair* kept;         // (blocks + 1, tiles * TILE) columns before each block, and the last one
    double* edges;      // (tiles, 2, block) last label of a tile, of each frame of a block and of the block after
    uint8_t* pointers;  // (block, block + 1)
    int64_t* place;     // {index, on_label}: where the path is at the end of the block that comes next
    int64_t bytes;
};

inline Workspace lay_out(const Arguments& a) {
    Workspace w;
    w.tiles = a.count / TILE + 1;
    w.blocks = (a.frames + a.block - 1) / a.block;
    char* next = static_cast<char*>(a.workspace);
    auto take = [&next](int64_t bytes) {
        char* const here = next;
        next += (bytes + 255) / 256 * 256;
        return static_cast<void*>(here);
    };
    w.kept = static_cast<Pair*>(take((w.blocks + 1) * w.tiles * TILE * sizeof(Pair)));
    w.edges = static_cast<double*>(take(w.tiles * 2 * a.block * sizeof(double)));
    w.pointers = static_cast<uint8_t*>(take(a.block * (a.block + 1)));
    w.place = static_cast<int64_t*>(take(2 * sizeof(int64_t)));
    w.bytes = next - static_cast<char*>(a.workspace);
    return w;
}

__device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

// A pair of the next frame. `before` is the label of the pair before, `skips`: whether it can go to this one's label.
__device__ __forceinline__ Pair step(Pair old, double before, bool skips, float blank, float label) {
    const double best = larger(old.label, old.blank);
    return {larger(old.blank, before) + blank, (skips ? larger(best, before) : best) + label};
}

__device__ __forceinline__ uint8_t pointer(Pair old, double before, bool skips) {
    const double best = larger(old.label, old.blank);
    const uint8_t label = skips && before > best ? FROM_LABEL : old.blank > old.label ? FROM_BLANK : STAY;
    return label | (before > old.blank ? BLANK_FROM_LABEL : 0);
}

// Whether label j - 1 can go to label j without a blank.
__device__ __forceinline__ bool skips_to(const Arguments& a, int64_t j) {
    return j > 0 && j < a.count && a.labels[j] != a.labels[j - 1];
}

// The column before the first frame: all is at the first blank.
__global__ void begin(Arguments a, Workspace w) {
    const int64_t pair = block() * threads() + thread();
    if (pair < w.tiles * TILE) w.kept[pair] = {pair == 0 ? 0.0 : -INFINITY, -INFINITY};
}

// What a lane needs of a frame.
struct Frame {
    float blank, labels[PAIRS];
};

__device__ __forceinline__ Frame fetch(const Arguments& a, int64_t t, const int64_t (&labels)[PAIRS]) {
    const float* const row = a.log_probs + (t < a.frames ? t : a.frames - 1) * a.outputs;  // past the end: not used
    Frame frame;
    frame.blank = row[a.blank];
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) frame.labels[p] = labels[p] < 0 ? -INFINITY : row[labels[p]];
    return frame;
}

// One tile through one block of frames; tiles first, first + 1, ... of a wave.
__global__ void __launch_bounds__(LANES) tile(Arguments a, Workspace w, int64_t wave, int64_t first) {
    const int64_t own = first + block(), number = wave - own, start = number * a.block;
    const int64_t size = a.frames - start < a.block ? a.frames - start : a.block;
    const int64_t pair = own * TILE + thread() * PAIRS;
    const Pair* const column = w.kept + number * w.tiles * TILE;
    Pair* const next_column = w.kept + (number + 1) * w.tiles * TILE;
    double* const edge = w.edges + (own * 2 + number % 2) * a.block;
    const double* const left = edge - 2 * a.block;
    const bool unreached = own * TILE >= start + size, too_late = (own + 1) * TILE + a.frames - start <= a.count;
    if (unreached || too_late) {  // no path is here: of an hour of fast speech two thirds of the tiles
        for (int p = 0; p < PAIRS; ++p) next_column[pair + p] = {-INFINITY, -INFINITY};
        for (int64_t k = thread(); k < size; k += LANES) edge[k] = -INFINITY;
        return;
    }
    Pair pairs[PAIRS];
    int64_t labels[PAIRS];
    unsigned skips = 0;
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) {
        pairs[p] = column[pair + p];
        labels[p] = pair + p < a.count ? a.labels[pair + p] : -1;
        skips |= unsigned(skips_to(a, pair + p)) << p;
    }
    double outside = own > 0 ? column[own * TILE - 1].label : -INFINITY;
    Frame ahead = fetch(a, start, labels);
    for (int64_t k = 0; k < size; ++k) {
        const Frame frame = ahead;
        ahead = fetch(a, start + k + 1, labels);
        double before = from_below(pairs[PAIRS - 1].label, 1);
        if (thread() == 0) {
            before = outside;
            if (own > 0) outside = left[k];
        }
#pragma unroll
        for (int p = PAIRS - 1; p >= 0; --p) {
            const double label_before = p > 0 ? pairs[p > 0 ? p - 1 : 0].label : before;
            pairs[p] = step(pairs[p], label_before, skips >> p & 1, frame.blank, frame.labels[p]);
        }
        if (thread() == LANES - 1) edge[k] = pairs[PAIRS - 1].label;
    }
#pragma unroll
    for (int p = 0; p < PAIRS; ++p) next_column[pair + p] = pairs[p];
}

// The path through block `number`, from its end; the last block's is at the last blank or the last label.
__global__ void __launch_bounds__(TRACERS) trace(Arguments a, Workspace w, int64_t number) {
    __shared__ Pair columns[2][LONGEST_BLOCK + 2];
    const int64_t start = number * a.block, size = a.frames - start < a.block ? a.frames - start : a.block;
    const Pair* const column = w.kept + number * w.tiles * TILE;
    int64_t index;
    bool on_label;
    if (number < w.blocks - 1) {
        index = w.place[0], on_label = w.place[1];
    } else {
        const Pair* const last = w.kept + w.blocks * w.tiles * TILE;
        on_label = a.count > 0 && last[a.count - 1].label > last[a.count].blank;
        index = a.count - on_label;
        if (thread() == 0) *a.score = on_label ? last[a.count - 1].label : last[a.count].blank;
    }
    const int64_t lowest = index > size ? index - size : 0, width = index - lowest + 1;
    for (int64_t i = thread(); i < width; i += threads()) columns[0][i + 1] = column[lowest + i];
    if (thread() < 2) columns[thread()][0] = {-INFINITY, -INFINITY};  // from outside no path reaches the end
    for (int64_t k = 0; k < size; ++k) {
        wait_for_block();
        const float* const row = a.log_probs + (start + k) * a.outputs;
        const Pair* const old = columns[k % 2];
        for (int64_t i = thread(); i < width; i += threads()) {
            const bool skips = skips_to(a, lowest + i);
            w.pointers[k * (a.block + 1) + i] = pointer(old[i + 1], old[i].label, skips);
            const float label = lowest + i < a.count ? row[a.labels[lowest + i]] : -INFINITY;
            columns[(k + 1) % 2][i + 1] = step(old[i + 1], old[i].label, skips, row[a.blank], label);
        }
    }
    wait_for_block();
    if (thread() != 0) return;
    for (int64_t k = size - 1; k >= 0; --k) {
        const uint8_t came = w.pointers[k * (a.block + 1) + index - lowest];
        a.path[start + k] = on_label ? index : -1;
        const bool from_label_before = on_label ? (came & 3) == FROM_LABEL : (came & BLANK_FROM_LABEL) != 0;
        on_label = on_label ? (came & 3) != FROM_BLANK : from_label_before;
        index -= from_label_before;
    }
    w.place[0] = index, w.place[1] = on_label;
}

}  // namespace viterbi

// Bytes of workspace that ds2_viterbi needs for these arguments.
extern "C" int64_t ds2_viterbi_workspace(const viterbi::Arguments* arguments) {
    viterbi::Arguments a = *arguments;
    a.workspace = nullptr;
    return viterbi::lay_out(a).bytes;
}

// Enqueues everything on the stream and returns; 0, or the number of a CUDA error. At least one frame.
extern "C" int ds2_viterbi(const viterbi::Arguments* a, void* stream_pointer) {
    using namespace viterbi;
    const Stream stream = static_cast<Stream>(stream_pointer);
    const Workspace w = lay_out(*a);
    start(begin, (w.tiles * TILE + FILLERS - 1) / FILLERS, FILLERS, stream, *a, w);
    for (int64_t wave = 0; wave < w.tiles + w.blocks - 1; ++wave) {
        const int64_t first = wave < w.blocks ? 0 : wave - w.blocks + 1, last = wave < w.tiles ? wave : w.tiles - 1;
        start(tile, last - first + 1, LANES, stream, *a, w, wave, first);
    }
    for (int64_t number = w.blocks - 1; number >= 0; --number) start(trace, 1, TRACERS, stream, *a, w, number);
    return last_error();
}
