// CTC on the GPU: log-softmax, loss and the gradient with respect to the logits (Deep Speech 2, section 4.2, improved).
//
//     check     one block an utterance   are lengths and labels sound? sorts the labels and finds where each begins
//     rows      one warp or block a row  softmax of each frame into the gradient; the probabilities that the trellis
//                                        needs, of the blank and of the L labels, side by side
//     columns   one block an utterance   alpha from the first frame on and beta from the last, at the same time:
//
//                    frame 0 ......... middle ......... T - 1
//                    alpha ----------->|<----------- beta        keep what they find
//                                      * meet: total probability, the loss
//                    beta <------------|------------> alpha      multiply with what the other kept: posteriors
//
//     labels    one warp a row           gradient of the blank and the labels: softmax - sum of posteriors
//
// A column lies in registers, P pairs of states (ctc_column.h) a thread; neighbours hand labels over by shuffles, warps
// by shared memory: each is a burst of frames behind the one before it, so a barrier comes once a burst. Nothing is added
// in an order that chance decides; the host waits for nothing; lengths stay on the GPU.
#include <math.h>
#include <stdint.h>

#include <algorithm>

#include "ctc_column.h"
#include "threads.h"

namespace ctc {

enum Type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

// What the caller hands over. Pointers are to memory of the GPU; strides count elements.
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

constexpr int ROW_WARP = 32, ROW_BLOCK = 256;  // threads that share a row
constexpr int WIDE = 1024;                     // outputs from which on a row takes a block
constexpr int SORTING = 256;                   // threads that sort
constexpr int AT_HAND = 2048;                  // keys that are sorted in shared memory
constexpr int MOST_WARPS = 8;                  // of each direction
constexpr int MOST_POWER = 4;                  // a thread holds up to 16 pairs
constexpr int BURST = AT_EASE;                 // frames between two barriers

template <typename Real>
struct Workspace {
    int power, warps;           // pairs a thread holds: 2^power; warps of each direction
    int64_t sorted;             // power of two
    Scaled<Real>* records;      // (B, warps, T, record_size), see below
    Pair<Real>* meeting;
    int64_t *keys, *offsets;    // labels and their positions, sorted; where the labels of an utterance begin in targets
    int32_t *heads, *distinct;  // where each label begins in keys, and behind the last; how many there are
    int32_t *status, *unsound;  // unsound: a frame has no softmax
    int64_t bytes;
};

// What the kernels leave for one another of a frame and a warp's pairs, side by side:
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
    const int64_t vain = (BURST + 1) * record;  // before the first and behind the last frame: what is fetched in vain
    char* const records = static_cast<char*>(take(a.batch * w.warps * a.frames * record + 2 * vain));
    w.records = reinterpret_cast<Scaled<Real>*>(records + vain);
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

// ---- check

// A bitonic network: keys of a power of two, by all threads of a block.
__device__ void sort(int64_t* keys, int64_t size) {
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

// Where the labels of utterance b begin; `sums` is for the threads of the block to add up in.
__device__ int64_t offset_of_targets(const Arguments& a, int64_t b, int64_t* sums) {
    if (a.targets_width) return b * a.targets_width;
    sums[thread()] = 0;
    for (int64_t i = thread(); i < b; i += threads()) sums[thread()] += a.target_lengths[i];
    wait_for_block();
    int64_t offset = 0;
    for (int i = 0; i < threads(); ++i) offset += sums[i];
    return offset;
}

// Where in the sorted keys a label is another one than before it, and behind the last; returns how many there are, to
// the last thread.
__device__ int find_heads(const int64_t* keys, int count, int32_t* heads, int* found) {
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
    const bool inside = frames >= 0 && frames <= a.frames && labels >= 0 && first >= 0 && first + labels <= a.targets_size;
    // More labels than any utterance's frames have no alignment, and no room.
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

// ---- rows

// Scores that are read or written at once: 16 bytes of them, or one where rows do not begin at multiples of 16 bytes.
template <typename Score, int WIDTH>
struct alignas(sizeof(Score) * WIDTH) Bundle {
    Score scores[WIDTH];
};

template <typename Real>
struct Softmax {  // of what has been read so far: sum is in units of exp(highest)
    Real highest, sum;
};

template <typename Real>
__device__ Real exponential(Real score, Real highest) {
    return fast_exp2((score - highest) * Real(LOG2_E));
}

// The sum in units of exp(highest), which is at least as high as its own. 0 where all are -inf, NaN where one is NaN.
template <typename Real>
__device__ Real in_units_of(Real highest, Softmax<Real> softmax) {
    return softmax.sum * exponential(softmax.highest, highest > -INFINITY ? highest : Real(0));
}

template <typename Real, typename Score, int WIDTH>
__device__ Softmax<Real> with(Softmax<Real> softmax, Bundle<Score, WIDTH> bundle) {
    Real highest = softmax.highest;
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        highest = fmax(highest, Real(bundle.scores[i]));  // which passes by NaN: the sum finds it
    }
    Real sum = in_units_of(highest, softmax);
#pragma unroll
    for (int i = 0; i < WIDTH; ++i) {
        sum += exponential(Real(bundle.scores[i]), highest > -INFINITY ? highest : Real(0));
    }
    return {highest, sum};
}

template <typename Real, int SHARING>
__device__ Softmax<Real> joined_over_row(Softmax<Real> own) {
    constexpr int WARPS = SHARING / LANES;
    __shared__ Real parts[2][WARPS];
    Real highest = own.highest;
    for (int mask = LANES / 2; mask > 0; mask /= 2) {
        highest = fmax(highest, from_across(highest, mask));
    }
    if (WARPS > 1) {
        parts[0][thread() / LANES % WARPS] = highest;
        wait_for_block();
        for (int warp = 0; warp < WARPS; ++warp) highest = fmax(highest, parts[0][warp]);
    }
    Real sum = in_units_of(highest, own);
    for (int mask = LANES / 2; mask > 0; mask /= 2) sum += from_across(sum, mask);
    if (WARPS > 1) {
        parts[1][thread() / LANES % WARPS] = sum;
        wait_for_block();
        sum = 0;
        for (int warp = 0; warp < WARPS; ++warp) sum += parts[1][warp];
    }
    return {highest, sum};
}

// The probability of a score as a scaled number, to the last digit however small: what score - highest is rounded by
// is not lost.
template <typename Real>
__device__ Scaled<Real> probability(Real score, Real highest, Real inverse_sum) {
    const Real high = score - highest, gone = high - score, low = (score - (high - gone)) - (highest + gone);
    const Scaled<Real> x = scaled_exponential(high, low);
    return normalised(Scaled<Real>{x.m * inverse_sum, x.e});
}

template <typename Real, typename Score, int SHARING, int WIDTH>
__global__ void rows(Arguments a, Workspace<Real> w) {
    typedef Bundle<Score, WIDTH> Row;
    const int row = int(block()) * (ROW_BLOCK / SHARING) + thread() / SHARING, frames = int(a.frames);
    const int b = row / frames, t = row % frames, own = thread() % SHARING, bundles = int(a.outputs / WIDTH);
    if (b >= a.batch) return;
    const int64_t at = b * a.batch_stride + t * a.frame_stride;
    const Score* const scores = static_cast<const Score*>(a.logits) + at;
    const Row* const bundled = reinterpret_cast<const Row*>(scores);
    Row* const gradient = a.gradient ? reinterpret_cast<Row*>(static_cast<Score*>(a.gradient) + at) : nullptr;
    const int32_t status = w.status[b];
    if (status != SOUND || t >= a.input_lengths[b]) {
        Row fill;
        for (int i = 0; i < WIDTH; ++i) fill.scores[i] = Score(status == WRONG ? float(NAN) : 0.0f);
        for (int v = own; gradient && v < bundles; v += SHARING) gradient[v] = fill;
        return;
    }
    Softmax<Real> softmax{Real(-INFINITY), Real(0)};
    for (int v = own; v < bundles; v += SHARING) softmax = with(softmax, bundled[v]);
    softmax = joined_over_row<Real, SHARING>(softmax);
    const bool sound = softmax.highest > -INFINITY && softmax.sum < INFINITY;
    const Real inverse_sum = Real(1) / softmax.sum;
    const Real factor = sound ? static_cast<const Real*>(a.weights)[b] * inverse_sum : Real(NAN);
    for (int v = own; gradient && v < bundles; v += SHARING) {
        const Row held = bundled[v];
        Row slope;
#pragma unroll
        for (int i = 0; i < WIDTH; ++i) {
            slope.scores[i] = Score(factor * exponential(Real(held.scores[i]), softmax.highest));
        }
        gradient[v] = slope;
    }
    const int labels = int(a.target_lengths[b]), P = 1 << w.power, lane = own % LANES;
    const int64_t* const targets = a.targets + w.offsets[b];
    auto look_up = [&](int v) { return probability(Real(scores[v]), softmax.highest, inverse_sum); };
    const bool few = a.outputs <= LANES;  // then each lane takes one, and hands it to all labels that are it
    const Scaled<Real> held = few ? look_up(lane < a.outputs ? lane : 0) : zero<Real>();
    auto of = [&](int v) {
        return few ? Scaled<Real>{from_lane(held.m, v), from_lane(held.e, v)} : look_up(v);
    };
    const Scaled<Real> blank = of(int(a.blank));
    for (int group = own / LANES; group < w.warps * P; group += SHARING / LANES) {  // 32 slots each
        const int warp = group >> w.power, p = group & (P - 1), pair = (warp * LANES + lane) * P + p;
        const Scaled<Real> label = of(int(pair < labels ? targets[pair] : a.blank));
        Scaled<Real>* const record = record_of(w, a, b, warp, t);
        record[p * LANES + lane] = pair < labels ? label : zero<Real>();
        if (p == 0 && lane == 0) record[2 * LANES * P] = blank;
    }
    if (own == 0 && !sound) w.unsound[b] = 1;  // whoever comes first: all write the same
}

// ---- columns

template <typename Real>
__device__ Scaled<Real> from_below(Scaled<Real> x) {
    return {::from_below(x.m, 1), ::from_below(x.e, 1)};
}
template <typename Real>
__device__ Scaled<Real> from_above(Scaled<Real> x) {
    return {::from_above(x.m, 1), ::from_above(x.e, 1)};
}

template <typename Real>
struct Edges {  // what the warps of one direction hand over to their neighbours, before each frame of two bursts
    Scaled<Real> values[2][BURST][MOST_WARPS];
};

template <typename Real, int P>
struct Frame {  // what a thread needs of a frame
    Scaled<Real> blank, labels[P], kept[P];
};

// One thread's part of one direction through the trellis.
template <typename Real, int P, bool FORWARD>
struct Walk {
    static constexpr int WAY = FORWARD ? 1 : -1, STRIDE = WAY * record_size(P * LANES);
    static constexpr int OUTERMOST = FORWARD ? 0 : LANES - 1;  // the lane whose neighbour is in another warp
    static constexpr int AHEAD = P <= 4 ? BURST : 1;           // frames fetched before they are needed: by registers

    const Arguments& a;
    const Workspace<Real>& w;
    Edges<Real>& edges;
    Scaled<Real>& inverse;  // of the probability of all alignments, known to both directions when they have met
    int b, frames, middle;  // alpha keeps the frames below `middle`, beta the others
    int lane, warp;
    unsigned skips;  // bit p: label p may follow the label before it without a blank
    Pair<Real> pairs[P];

    __device__ Walk(const Arguments& a, const Workspace<Real>& w, Edges<Real>& edges, Scaled<Real>& inverse)
        : a(a), w(w), edges(edges), inverse(inverse), b(block()), frames(a.input_lengths[b]), middle((frames + 1) / 2),
          lane(thread() % LANES), warp(thread() / LANES % w.warps), skips(0) {
        const int64_t labels = a.target_lengths[b], first = w.offsets[b];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const int64_t j = (warp * LANES + lane) * P + p;
            if (j > 0 && j < labels) skips |= unsigned(a.targets[first + j] != a.targets[first + j - 1]) << p;
            // Before the first frame all mass is on the first blank, behind the last on the last.
            pairs[p] = no_pair<Real>();
            if (j == (FORWARD ? 0 : labels)) pairs[p].blank = {Real(1), 0};
        }
    }

    // This thread's part of the record: pair p lies p * LANES further on.
    __device__ Scaled<Real>* record(int t) const { return record_of(w, a, b, warp, t) + lane; }

    template <bool MET>
    __device__ Frame<Real, P> fetch(const Scaled<Real>* record) const {
        Frame<Real, P> frame;
        frame.blank = record[2 * P * LANES - lane];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            frame.labels[p] = record[p * LANES];
            if (MET) frame.kept[p] = record[(P + p) * LANES];
        }
        return frame;
    }

    template <bool MET>
    __device__ void leave(Scaled<Real>* record, const Frame<Real, P>& frame, const Pair<Real> (&found)[P]) const {
#pragma unroll
        for (int p = 0; p < P; ++p) {
            Scaled<Real>& place = record[(P + p) * LANES];
            if (MET) place.m = share(found[p].label, frame.kept[p], inverse);
            else place = found[p].label;
        }
    }

    // What the next warp needs before frame i of a burst: the last label; of beta, what the first pair lets in.
    __device__ Scaled<Real> hand_on(int burst, int i) {
        const Scaled<Real> edge =
            FORWARD ? pairs[P - 1].label : entrance(pairs[0], sum(pairs[0].blank, pairs[0].label), skips);
        if (lane == LANES - 1 - OUTERMOST) edges.values[burst & 1][i][warp] = edge;
        return edge;
    }

    // What the warp before handed on.
    __device__ Scaled<Real> handed_over(int burst, int i) const {
        const bool first = warp == (FORWARD ? 0 : w.warps - 1);
        return first ? zero<Real>() : edges.values[burst & 1][i][warp - WAY];
    }

    // The edge of the thread before this one, `edge` being its own.
    __device__ Scaled<Real> neighbour(Scaled<Real> edge, Scaled<Real> outside) const {
        const Scaled<Real> inside = FORWARD ? from_below(edge) : from_above(edge);
        return lane == OUTERMOST ? outside : inside;
    }

    // A frame on; `found` receives alpha or beta of the labels.
    __device__ void step(Scaled<Real> neighbour, const Frame<Real, P>& frame, Pair<Real> (&found)[P]) {
        if (FORWARD) {
            alpha_step<Real, P>(pairs, skips, neighbour, frame.blank, frame.labels);
#pragma unroll
            for (int p = 0; p < P; ++p) found[p] = pairs[p];
        } else {
            beta_step<Real, P>(pairs, skips, neighbour, frame.blank, frame.labels, found);
        }
    }

    __device__ void wait_for_direction() const { wait_for_group(FORWARD ? 1 : 2, w.warps * LANES); }

    // `count` frames, or as many as a burst has.
    template <bool MET, bool WHOLE>
    __device__ void take_burst(int burst, int count, Scaled<Real>* now, Frame<Real, P> (&fetched)[AHEAD]) {
        Scaled<Real> outside[BURST];
#pragma unroll
        for (int i = 0; i < BURST; ++i) outside[i] = handed_over(burst, i);
#pragma unroll
        for (int i = 0; i < BURST; ++i) {
            if (!WHOLE && i >= count) break;
            Pair<Real> found[P];
            step(neighbour(hand_on(burst, i), outside[i]), fetched[i % AHEAD], found);
            leave<MET>(now + i * STRIDE, fetched[i % AHEAD], found);
            fetched[i % AHEAD] = fetch<MET>(now + (i + AHEAD) * STRIDE);
        }
        normalise<Real, P>(pairs);
    }

    // Steps `count` frames from frame `from` on, and leaves what they find. In each round every warp takes a burst of
    // frames, the next one of the burst that the warp before it took in the round before.
    template <bool MET>
    __device__ void go(int from, int count) {
        const int bursts = (count + BURST - 1) / BURST, behind = FORWARD ? warp : w.warps - 1 - warp;
        Scaled<Real>* now = record(from);
        Frame<Real, P> fetched[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) fetched[i] = fetch<MET>(now + i * STRIDE);
        for (int round = 0; round < bursts + w.warps - 1; ++round) {
            const int burst = round - behind;
            if (burst >= 0 && burst < bursts) {
                const int left = count - burst * BURST;
                if (left >= BURST) take_burst<MET, true>(burst, left, now, fetched);
                else take_burst<MET, false>(burst, left, now, fetched);
                now += BURST * STRIDE;
            }
            wait_for_direction();
        }
    }

    __device__ Pair<Real>* meeting() const { return w.meeting + (b * w.warps + warp) * P * LANES + lane; }

    __device__ void leave_column() const {
#pragma unroll
        for (int p = 0; p < P; ++p) meeting()[p * LANES] = pairs[p];
    }

    // Beta of the frame below the middle, times alpha of the same frame, which the other direction left.
    __device__ void meet() {
        Scaled<Real>* const record = this->record(middle - 1);
        const Frame<Real, P> frame = fetch<true>(record);
        Pair<Real> betas[P];
        const Scaled<Real> edge = hand_on(0, 0);
        wait_for_direction();
        step(neighbour(edge, handed_over(0, 0)), frame, betas);
        Scaled<Real> own = zero<Real>();
#pragma unroll
        for (int p = 0; p < P; ++p) own = normalised(sum(own, mass(meeting()[p * LANES], betas[p])));
        for (int mask = LANES / 2; mask > 0; mask /= 2) {
            own = normalised(sum(own, Scaled<Real>{from_across(own.m, mask), from_across(own.e, mask)}));
        }
        Scaled<Real>* const row = edges.values[1][0];  // not where the edges were handed over: a warp may be behind
        if (lane == 0) row[warp] = own;
        wait_for_direction();
        if (warp == 0 && lane == 0) {
            for (int i = 1; i < w.warps; ++i) own = normalised(sum(own, row[i]));
            inverse = {Real(1) / own.m, -own.e};
            const double loss = -(log(double(own.m)) + double(own.e) * LN_2);
            static_cast<Real*>(a.losses)[b] = !(own.m > 0) ? Real(INFINITY) : loss > 0 ? Real(loss) : Real(0);
        }
        wait_for_block();  // both directions know the total
        leave<true>(record, frame, betas);
    }
};

template <typename Real, int P>
__global__ void __launch_bounds__(P == 1 ? 2 * LANES : 2 * MOST_WARPS * LANES) columns(Arguments a, Workspace<Real> w) {
    __shared__ Edges<Real> edges[2];
    __shared__ Scaled<Real> inverse;
    const int64_t b = block();
    if (w.status[b] != SOUND || w.unsound[b] || a.input_lengths[b] == 0) {
        const bool wrong = w.status[b] == WRONG || w.unsound[b];
        const Real loss = wrong ? Real(NAN) : w.status[b] == NO_ALIGNMENT ? Real(INFINITY) : Real(0);
        if (thread() == 0) static_cast<Real*>(a.losses)[b] = loss;
        return;
    }
    if (thread() < w.warps * LANES) {
        Walk<Real, P, true> alpha(a, w, edges[0], inverse);
        alpha.template go<false>(0, alpha.middle);
        alpha.leave_column();
        wait_for_block();  // the column lies ready
        wait_for_block();  // both directions know the total
        if (a.gradient) alpha.template go<true>(alpha.middle, alpha.frames - alpha.middle);
    } else {
        Walk<Real, P, false> beta(a, w, edges[1], inverse);
        beta.template go<false>(beta.frames - 1, beta.frames - beta.middle);
        wait_for_block();
        beta.meet();
        if (a.gradient) beta.template go<true>(beta.middle - 2, beta.middle - 1);
    }
}

// ---- labels

template <typename Real>
__device__ Real value(Scaled<Real> x) {
    return x.m * power_of_two<Real>(x.e + Format<Real>::BIAS);
}

template <typename Real, typename Score>
__global__ void labels(Arguments a, Workspace<Real> w) {
    const int row = int(block()) * (ROW_BLOCK / LANES) + thread() / LANES, frames = int(a.frames);
    const int b = row / frames, t = row % frames, lane = thread() % LANES;
    if (b >= a.batch) return;
    const Real loss = static_cast<const Real*>(a.losses)[b], weight = static_cast<const Real*>(a.weights)[b];
    if (w.status[b] != SOUND || loss != loss || t >= a.input_lengths[b]) return;  // `rows` has written the last word
    Score* const gradient = static_cast<Score*>(a.gradient) + b * a.batch_stride + t * a.frame_stride;
    if (loss == INFINITY) {  // labels of probability 0
        for (int64_t v = lane; v < a.outputs; v += LANES) gradient[v] = Score(0.0f);
        return;
    }
    const int64_t* const keys = w.keys + b * w.sorted;
    const int32_t* const heads = w.heads + b * (a.most_labels + 1);
    const int slots = LANES << w.power;
    auto own = [&](int i) {
        const int pair = position_of(keys[i]);
        return record_of(w, a, b, warp_of_pair(pair, w.power), t) + slot_of_pair(pair, w.power);
    };
    Real all = 0;
    for (int i = lane; i < w.distinct[b]; i += LANES) {
        const int head = heads[i], end = heads[i + 1];
        Real posterior = 0;
        for (int k = head; k < end; ++k) posterior += own(k)[slots].m;
        gradient[label_of(keys[head])] = Score(weight * (value(*own(head)) - posterior));
        all += posterior;
    }
    for (int mask = LANES / 2; mask > 0; mask /= 2) all += from_across(all, mask);
    const Scaled<Real> blank = record_of(w, a, b, 0, t)[2 * slots];
    if (lane == 0) gradient[a.blank] = Score(weight * (value(blank) - (Real(1) - all)));
}

// ---- rescale

// The gradient of a batch and the factors that it has, (B,), and should have.
struct Rescaling {
    void* gradient;       // of Arguments
    const void* weights;  // of Arguments
    const void* wanted;   // likewise, wanted_stride elements apart
    int64_t wanted_stride, batch, frames, outputs, batch_stride, frame_stride;
    int32_t type;
};

constexpr int PARTS = 16;  // blocks of an utterance

// In place. Where both factors are the same, as most steps of training have it, nothing is read or written.
template <typename Real, typename Score>
__global__ void rescale(Rescaling r) {
    const int64_t b = block() / PARTS, warp = block() % PARTS * (ROW_BLOCK / LANES) + thread() / LANES;
    const Real weight = static_cast<const Real*>(r.weights)[b];
    const Real wanted = static_cast<const Real*>(r.wanted)[b * r.wanted_stride];
    if (wanted == weight) return;
    const Real factor = wanted / weight;
    for (int64_t t = warp; t < r.frames; t += PARTS * (ROW_BLOCK / LANES)) {
        Score* const row = static_cast<Score*>(r.gradient) + b * r.batch_stride + t * r.frame_stride;
        for (int64_t v = thread() % LANES; v < r.outputs; v += LANES) row[v] = Score(factor * Real(row[v]));
    }
}

template <typename Real, typename Score>
void start_rescale(const Rescaling& r, Stream stream) {
    start(rescale<Real, Score>, r.batch * PARTS, ROW_BLOCK, stream, r);
}

// ---- all together

template <typename Real, int P>
void start_columns(const Arguments& a, const Workspace<Real>& w, Stream stream) {
    start(columns<Real, P>, a.batch, 2 * w.warps * LANES, stream, a, w);
}

template <typename Real, typename Score, int WIDTH>
void start_rows(const Arguments& a, const Workspace<Real>& w, Stream stream) {
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    if (a.outputs >= WIDE) start(rows<Real, Score, ROW_BLOCK, WIDTH>, all, ROW_BLOCK, stream, a, w);
    else start(rows<Real, Score, ROW_WARP, WIDTH>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
}

// Whether all rows of the logits and of their gradient begin and end at multiples of so many bytes.
inline bool aligned(const Arguments& a, int64_t bytes, int64_t size) {
    const auto ends = {int64_t(a.logits), int64_t(a.gradient), a.outputs * size, a.batch_stride * size, a.frame_stride * size};
    return std::all_of(ends.begin(), ends.end(), [bytes](int64_t end) { return end % bytes == 0; });
}

template <typename Real, typename Score>
void run(const Arguments& a, Stream stream) {
    const Workspace<Real> w = lay_out<Real>(a);
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    start(check<Real>, a.batch, SORTING, stream, a, w);
    constexpr int WIDTH = 16 / sizeof(Score);
    if (aligned(a, 16, sizeof(Score))) start_rows<Real, Score, WIDTH>(a, w, stream);
    else start_rows<Real, Score, 1>(a, w, stream);
    switch (w.power) {
        case 0: start_columns<Real, 1>(a, w, stream); break;
        case 1: start_columns<Real, 2>(a, w, stream); break;
        case 2: start_columns<Real, 4>(a, w, stream); break;
        case 3: start_columns<Real, 8>(a, w, stream); break;
        default: start_columns<Real, 1 << MOST_POWER>(a, w, stream);
    }
    if (a.gradient) start(labels<Real, Score>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
}

}  // namespace ctc

// Labels of one utterance that the kernels can hold.
extern "C" int64_t ds2_ctc_most_labels() { return (ctc::MOST_WARPS * ctc::LANES << ctc::MOST_POWER) - 1; }

// Bytes of workspace that ds2_ctc needs for these arguments.
extern "C" int64_t ds2_ctc_workspace(const ctc::Arguments* arguments) {
    ctc::Arguments a = *arguments;
    a.workspace = nullptr;
    return a.type == ctc::FLOAT64 ? ctc::lay_out<double>(a).bytes : ctc::lay_out<float>(a).bytes;
}

// Enqueues everything on the stream and returns; 0, or the number of a CUDA error. Rows are counted in 32 bits: memory
// ends long before.
extern "C" int ds2_ctc(const ctc::Arguments* a, void* stream_pointer) {
    const Stream stream = static_cast<Stream>(stream_pointer);
    switch (a->type) {
        case ctc::FLOAT64: ctc::run<double, double>(*a, stream); break;
        case ctc::BFLOAT16: ctc::run<float, Bfloat16>(*a, stream); break;
        case ctc::FLOAT16: ctc::run<float, Half>(*a, stream); break;
        default: ctc::run<float, float>(*a, stream);
    }
    return last_error();
}

// Enqueues a change of the gradient's factors, in place; 0, or the number of a CUDA error.
extern "C" int ds2_ctc_rescale(const ctc::Rescaling* r, void* stream_pointer) {
    const Stream stream = static_cast<Stream>(stream_pointer);
    switch (r->type) {
        case ctc::FLOAT64: ctc::start_rescale<double, double>(*r, stream); break;
        case ctc::BFLOAT16: ctc::start_rescale<float, Bfloat16>(*r, stream); break;
        case ctc::FLOAT16: ctc::start_rescale<float, Half>(*r, stream); break;
        default: ctc::start_rescale<float, float>(*r, stream);
    }
    return last_error();
}
