// CTC-CRF on the GPU (Xiang and Ou 2019, section 3). ds2/ctc/crf.py and ds2/ctc/label_paths.py say what the states are.
//
//     all_paths     one block an utterance; a state, the last two labels (a, b), belongs to one thread
//
//         forward   frame 0 ---------> T - 1     keeps the states' weights after each frame, scaled to the sum 1
//         backward  frame 0 <--------- T - 1     times what was kept: the probabilities of the outputs
//
//     label_paths   one block an utterance; a place among its labels belongs to one thread; likewise there and back,
//                   in logarithms and float64
//
// The trigram lies in the second-level cache: each frame reads all of it, in the order of memory. No sum depends on the
// order of threads; the host does not wait; lengths stay on the GPU.
#include <math.h>
#include <stdint.h>

#include "threads.h"

namespace crf {

constexpr int LANES = 32, MOST_THREADS = 1024;
constexpr int MOST_OUTPUTS = 54;                                                // what shared memory holds
constexpr int SHARE = (MOST_OUTPUTS * MOST_OUTPUTS - 1) / MOST_THREADS + 1;     // states of a thread, at most
constexpr int STRIDE = MOST_OUTPUTS + 1;                                        // odd: a column has all banks
constexpr float TINY = 1e-30f;                                                  // of the sum of all states: less is 0
constexpr double NEVER = -1e30;                                                 // log weight where no path is

// Pointers are to memory of the GPU; lengths are of each utterance.
struct AllPaths {
    const float* log_probs;    // (B, T, R, V), R: 1, or V, for the label before
    const int64_t* lengths;    // (B,) frames
    const float* enter;        // (V, V, V) [b, a, c]: p(c | a, b), 0 of the end
    const float* back;         // (V, V, V) [c, a, b]: the same, also 0 for a label that comes twice
    const float* after_blank;  // (V, V) [a, b]: p(b | a, b)
    const float* end;          // (V, V) that the labels end
    float* totals;             // (B,) receives the logarithms of the weights
    float* posteriors;         // as log_probs, zeros, or null: receives the probabilities of the outputs
    void* workspace;           // of ds2_all_paths_workspace()
    int64_t batch, frames, rows, outputs;
};

// The sum over the threads of a block, in one order; `parts` holds one number a warp.
template <typename Real>
__device__ Real sum_of_block(Real own, Real* parts) {
    for (int mask = LANES / 2; mask > 0; mask /= 2) own += from_across(own, mask);
    if (thread() % LANES == 0) parts[thread() / LANES] = own;
    wait_for_block();
    Real sum = 0;
    for (int warp = 0; warp < threads() / LANES; ++warp) sum += parts[warp];
    return sum;
}

__device__ __forceinline__ float unless_tiny(float x) { return x > TINY ? x : 0.0f; }

struct State {
    float label, blank;  // by whether the last frame emits the last label, or a blank
};

__global__ void __launch_bounds__(MOST_THREADS) all_paths(AllPaths a) {
    __shared__ float first[MOST_OUTPUTS * STRIDE], second[MOST_OUTPUTS * STRIDE], parts[LANES];
    const int V = int(a.outputs), states = V * V, count = int(a.lengths[block()]);
    State* const kept = static_cast<State*>(a.workspace) + block() * a.frames * (states + 1);
    const float* const emitted = a.log_probs + block() * a.frames * a.rows * V;
    auto number = [&](int share) { return share * threads() + thread(); };
    auto output = [&](int state) { return a.rows > 1 ? state : state % V; };  // of a frame
    State own[SHARE];
    double total = 0;

    // Forward. Shared by their last label: the weights of all states, and of those after a blank.
    auto pass_on = [&] {
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share), place = state % V * STRIDE + state / V;
            if (state >= states) continue;
            first[place] = own[share].label + own[share].blank;
            second[place] = own[share].blank;
        }
        wait_for_block();
    };
#pragma unroll
    for (int share = 0; share < SHARE; ++share) own[share] = {0.0f, number(share) == 0 ? 1.0f : 0.0f};
    pass_on();
    for (int t = 0; t < count; ++t) {
        const float* const now = emitted + t * a.rows * V;
        const float silence = expf(now[0]);
        float sum = 0;
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share), b = state / V, c = state % V;
            if (state >= states) continue;
            // A label comes twice only after a blank.
            const float *const before = (b == c ? second : first) + b * STRIDE, *const table = a.enter + b * states + c;
            float entered = 0;
#pragma unroll 8
            for (int before_last = 0; before_last < V; ++before_last) entered += before[before_last] * table[before_last * V];
            const float label = (entered + own[share].label) * expf(now[output(state)]);
            own[share] = {label, (own[share].label + own[share].blank) * silence};
            sum += own[share].label + own[share].blank;
        }
        const float scale = sum_of_block(sum, parts), inverse = 1.0f / scale;
        total += log(double(scale));
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share);
            if (state >= states) continue;
            own[share] = {unless_tiny(own[share].label * inverse), unless_tiny(own[share].blank * inverse)};
            if (a.posteriors) kept[int64_t(t) * (states + 1) + state] = own[share];
        }
        if (a.posteriors && thread() == 0) kept[int64_t(t) * (states + 1) + states] = {inverse, 0.0f};
        pass_on();
    }
    float sum = 0;
#pragma unroll
    for (int share = 0; share < SHARE; ++share) {
        const int state = number(share);
        if (state < states) sum += (own[share].label + own[share].blank) * a.end[state];
    }
    const float ended = sum_of_block(sum, parts);
    if (thread() == 0) a.totals[block()] = float(total + log(double(ended)));
    if (!a.posteriors) return;

    // Backward. Shared by the label before the last: the weights of the states behind a label; with R = 1 `second` gathers
    // the outputs' probabilities.
    float* const posteriors = a.posteriors + block() * a.frames * a.rows * V;
#pragma unroll
    for (int share = 0; share < SHARE; ++share) {
        const int state = number(share);
        own[share].label = own[share].blank = state < states ? a.end[state] / ended : 0.0f;
    }
    wait_for_block();  // all have read `parts`
    for (int t = count - 1; t >= 0; --t) {
        const float* const now = emitted + t * a.rows * V;
        const State* const column = kept + int64_t(t) * (states + 1);
        const float inverse = column[states].label, silence = expf(now[0]) * inverse;
        float* const found = posteriors + t * a.rows * V;
        float silent = 0;
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share);
            if (state < states) silent += column[state].blank * own[share].blank;
        }
        silent = sum_of_block(silent, parts);
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share), place = state / V * STRIDE + state % V;
            if (state >= states) continue;
            const float posterior = column[state].label * own[share].label;
            if (a.rows > 1) found[state] = state == 0 ? silent : posterior;
            else second[place] = posterior;
            own[share].label *= expf(now[output(state)]) * inverse;
            own[share].blank *= silence;
            first[place] = own[share].label;
        }
        wait_for_block();
        if (a.rows == 1 && thread() < V) {
            float all = 0;
            for (int b = 0; b < V; ++b) all += second[b * STRIDE + thread()];
            found[thread()] = thread() == 0 ? silent : all;
        }
#pragma unroll
        for (int share = 0; share < SHARE; ++share) {
            const int state = number(share), b = state % V;
            if (state >= states) continue;
            const float *const behind = first + b * STRIDE, *const table = a.back + state;
            float entered = 0;
#pragma unroll 8
            for (int c = 0; c < V; ++c) entered += behind[c] * table[int64_t(c) * states];
            const float stays = own[share].label + own[share].blank;
            own[share].blank += entered + behind[b] * a.after_blank[state];
            own[share].label = stays + entered;
        }
    }
}

// Pointers are to memory of the GPU.
struct LabelPaths {
    const float* emitted;   // (B, T, L) log weights of the labels at their places
    const float* silent;    // (B, T) of the blank
    const uint8_t* again;   // (B, L) whether a label needs a blank before it
    const int64_t* frames;  // (B,)
    const int64_t* labels;  // (B,)
    float* totals;          // (B,) receives the logarithms of the weights
    float* of_labels;       // as emitted, zeros, or null: receives their gradient
    float* of_blank;        // as silent, likewise
    void* workspace;        // of ds2_label_paths_workspace()
    int64_t batch, most_frames, most_labels;
};

struct Place {
    double label, blank;  // log weights: on the label, and on the blank before it
};

inline int64_t columns(const LabelPaths& a) { return a.most_frames + 3; }  // one before each frame, the last one, two more

// log(exp(x) + exp(y))
__device__ __forceinline__ double log_sum(double x, double y) {
    const double high = x > y ? x : y, low = x > y ? y : x;
    return low < NEVER / 2 ? high : high + log1p(exp(low - high));
}

__global__ void __launch_bounds__(MOST_THREADS) label_paths(LabelPaths a, int64_t columns) {
    __shared__ double parts[2][LANES];
    const int64_t b = block(), size = a.most_labels + 1;
    const int frames = int(a.frames[b]), labels = int(a.labels[b]);
    Place* const kept = static_cast<Place*>(a.workspace) + b * columns * size;
    const float *const emitted = a.emitted + b * a.most_frames * a.most_labels, *const silent = a.silent + b * a.most_frames;
    const uint8_t* const again = a.again + b * a.most_labels;
    for (int p = thread(); p <= labels; p += threads()) kept[p] = {NEVER, p == 0 ? 0.0 : NEVER};
    wait_for_block();
    for (int t = 0; t < frames; ++t) {
        const Place* const before = kept + t * size;
        for (int p = thread(); p <= labels; p += threads()) {
            const Place old = before[p];
            const double left = p > 0 ? before[p - 1].label : NEVER;
            Place next = {NEVER, log_sum(old.blank, left) + silent[t]};
            if (p < labels) {
                const double entered = log_sum(again[p] ? NEVER : left, old.blank);
                next.label = log_sum(old.label, entered) + emitted[t * a.most_labels + p];
            }
            kept[(t + 1) * size + p] = next;
        }
        wait_for_block();
    }
    const Place* const last = kept + frames * size;
    const double total = log_sum(last[labels].blank, labels > 0 ? last[labels - 1].label : NEVER);
    if (thread() == 0) a.totals[b] = float(total);
    if (!a.of_labels || total < NEVER / 2) return;

    // The way back: log weights of the frames after a place, in two columns in turn.
    Place* const behind = kept + (columns - 2) * size;
    const int newest = frames % 2;
    for (int p = thread(); p <= labels; p += threads()) {
        behind[newest * size + p] = {p == labels - 1 ? 0.0 : NEVER, p == labels ? 0.0 : NEVER};
    }
    wait_for_block();
    for (int t = frames - 1; t >= 0; --t) {
        const Place *const column = kept + (t + 1) * size, *const after = behind + (t + 1) % 2 * size;
        const float* const now = emitted + t * a.most_labels;
        double silence = 0;
        for (int p = thread(); p <= labels; p += threads()) {
            const Place own = p < labels ? Place{after[p].label + now[p], after[p].blank + silent[t]}
                                         : Place{NEVER, after[p].blank + silent[t]};
            Place next = {NEVER, log_sum(own.blank, own.label)};
            if (p < labels) {
                const double label = p + 1 < labels && !again[p + 1] ? after[p + 1].label + now[p + 1] : NEVER;
                next.label = log_sum(log_sum(own.label, after[p + 1].blank + silent[t]), label);
                a.of_labels[(b * a.most_frames + t) * a.most_labels + p] = float(exp(column[p].label + after[p].label - total));
            }
            silence += exp(column[p].blank + after[p].blank - total);
            behind[t % 2 * size + p] = next;
        }
        silence = sum_of_block(silence, parts[t % 2]);
        if (thread() == 0) a.of_blank[b * a.most_frames + t] = float(silence);
    }
}

// Threads of a block for so many things to do: a multiple of a warp, as few idle ones as can be.
inline int block_size(int64_t things) {
    const int64_t shares = (things - 1) / MOST_THREADS + 1, each = (things - 1) / shares + 1;
    return int((each + LANES - 1) / LANES * LANES);
}

}  // namespace crf

// Outputs that ds2_all_paths can hold.
extern "C" int64_t ds2_all_paths_outputs() { return crf::MOST_OUTPUTS; }

// Bytes of workspace that ds2_all_paths needs for these arguments.
extern "C" int64_t ds2_all_paths_workspace(const crf::AllPaths* a) {
    return a->posteriors ? a->batch * a->frames * (a->outputs * a->outputs + 1) * int64_t(sizeof(crf::State)) : 0;
}

// Enqueues the kernel on the stream and returns; 0, or the number of a CUDA error.
extern "C" int ds2_all_paths(const crf::AllPaths* a, void* stream_pointer) {
    start(crf::all_paths, a->batch, crf::block_size(a->outputs * a->outputs), static_cast<Stream>(stream_pointer), *a);
    return last_error();
}

// Bytes of workspace that ds2_label_paths needs for these arguments.
extern "C" int64_t ds2_label_paths_workspace(const crf::LabelPaths* a) {
    return a->batch * crf::columns(*a) * (a->most_labels + 1) * int64_t(sizeof(crf::Place));
}

// Enqueues the kernel on the stream and returns; 0, or the number of a CUDA error.
extern "C" int ds2_label_paths(const crf::LabelPaths* a, void* stream_pointer) {
    const int threads = crf::block_size(a->most_labels + 1);
    start(crf::label_paths, a->batch, threads, static_cast<Stream>(stream_pointer), *a, crf::columns(*a));
    return last_error();
}
