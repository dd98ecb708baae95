// CTC on the GPU: log-softmax, loss and the gradient with respect to the logits (Deep Speech 2, section 4.2, improved).
//
//     check     one block an utterance   are lengths and labels sound? sorts the labels: equal ones side by side
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
// by shared memory. Up to 127 labels one warp holds the column, and a frame costs no barrier. Nothing is added in an
// order that chance decides; the host waits for nothing; lengths stay on the GPU.
#include <math.h>
#include <stdint.h>

#include "ctc_column.h"
#include "threads.h"

namespace ctc {

enum Type { FLOAT32, FLOAT64, BFLOAT16, FLOAT16 };

struct Bfloat16 {
    uint16_t bits;
};

// What the caller hands over. Pointers are to memory of the GPU; strides count elements.
struct Arguments {
    const void* logits;  // (B, T, V), outputs side by side
    void* gradient;      // as logits, or null: only the losses are wanted
    const int64_t* targets;
    const int64_t* target_offsets;  // (B,) where the labels of an utterance begin
    const int64_t* target_lengths;  // (B,)
    const int64_t* input_lengths;   // (B,)
    const double* weights;          // (B,) factors of the gradient
    void* losses;                   // (B,) float32, or float64 for float64 logits
    void* workspace;                // of workspace_bytes()
    int64_t batch, frames, outputs, blank;
    int64_t batch_stride, frame_stride;
    int64_t most_labels;  // of an utterance that can be aligned: at most T, at most the width of padded targets
    int64_t targets_size;
    int32_t type;
};

enum Status { SOUND, NO_ALIGNMENT, WRONG };

constexpr int ROW_WARP = 32, ROW_BLOCK = 256;  // threads that share a row
constexpr int WIDE = 1024;                     // outputs from which on a row takes a block
constexpr int SORTING = 256;                   // threads that sort
constexpr int MOST_WARPS = 8;                  // of each direction
constexpr int AHEAD = 4;                       // frames fetched before they are needed, where registers allow

template <typename Real>
struct Workspace {
    int pairs_a_thread, warps;  // of each direction
    int64_t slots;              // pairs of a column, used or not
    int64_t sorted;             // power of two
    Scaled<Real>*blanks, *labels, *kept;
    Real* posteriors;
    Pair<Real>* meeting;
    int64_t* keys;
    int32_t *status, *unsound;  // unsound: a frame has no softmax
    int64_t bytes;
};

template <typename Real>
Workspace<Real> lay_out(const Arguments& a) {
    Workspace<Real> w;
    const int64_t pairs = a.most_labels + 1;
    w.pairs_a_thread = pairs <= 32 ? 1 : pairs <= 64 ? 2 : pairs <= 128 ? 4 : pairs <= 2048 ? 8 : 32;
    const int64_t a_warp = LANES * w.pairs_a_thread;
    w.warps = int((pairs + a_warp - 1) / a_warp);
    w.slots = w.warps * a_warp;
    for (w.sorted = 1; w.sorted < a.most_labels;) w.sorted *= 2;
    const int64_t rows = a.batch * a.frames;
    char* next = static_cast<char*>(a.workspace);
    auto take = [&next](int64_t bytes) {
        char* const here = next;
        next += (bytes + 255) / 256 * 256;
        return static_cast<void*>(here);
    };
    w.blanks = static_cast<Scaled<Real>*>(take(rows * sizeof(Scaled<Real>)));
    w.labels = static_cast<Scaled<Real>*>(take(rows * w.slots * sizeof(Scaled<Real>)));
    w.kept = static_cast<Scaled<Real>*>(take(a.gradient ? rows * w.slots * sizeof(Scaled<Real>) : 0));
    w.posteriors = static_cast<Real*>(take(a.gradient ? rows * w.slots * sizeof(Real) : 0));
    w.meeting = static_cast<Pair<Real>*>(take(a.batch * w.slots * sizeof(Pair<Real>)));
    w.keys = static_cast<int64_t*>(take(a.batch * w.sorted * sizeof(int64_t)));
    w.status = static_cast<int32_t*>(take(a.batch * sizeof(int32_t)));
    w.unsound = static_cast<int32_t*>(take(a.batch * sizeof(int32_t)));
    w.bytes = next - static_cast<char*>(a.workspace);
    return w;
}

BOTH float read(float x) { return x; }
BOTH double read(double x) { return x; }
BOTH float read(Bfloat16 x) { return bits_of<float>(uint32_t(x.bits) << 16); }
BOTH float read(Half x) { return float(x); }

BOTH void write(float& to, float x) { to = x; }
BOTH void write(double& to, double x) { to = x; }
BOTH void write(Half& to, float x) { to = Half(x); }
BOTH void write(Bfloat16& to, float x) {  // to the nearest, ties to even
    const uint32_t bits = bits_of<uint32_t>(x);
    to.bits = x == x ? uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : 0x7fc0;
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

template <typename Real>
__global__ void check(Arguments a, Workspace<Real> w) {
    __shared__ int repeated[SORTING], wrong[SORTING];
    const int64_t b = block(), frames = a.input_lengths[b], labels = a.target_lengths[b], first = a.target_offsets[b];
    const bool inside = frames >= 0 && frames <= a.frames && labels >= 0 && first >= 0 && first + labels <= a.targets_size;
    repeated[thread()] = 0, wrong[thread()] = !inside;
    int64_t* const keys = w.keys + b * w.sorted;
    for (int64_t i = thread(); inside && i < labels; i += threads()) {
        const int64_t label = a.targets[first + i];
        wrong[thread()] |= label < 0 || label >= a.outputs || label == a.blank;
        repeated[thread()] += i > 0 && label == a.targets[first + i - 1];
    }
    for (int64_t i = thread(); i < w.sorted; i += threads()) {
        keys[i] = inside && i < labels ? a.targets[first + i] << 32 | i : NO_KEY;
    }
    sort(keys, w.sorted);
    if (thread() != 0) return;
    int64_t needed = labels;
    bool sound = true;
    for (int i = 0; i < threads(); ++i) needed += repeated[i], sound = sound && !wrong[i];
    w.unsound[b] = 0;
    w.status[b] = !sound ? WRONG : needed > frames ? NO_ALIGNMENT : SOUND;
}

// ---- rows

template <typename Real>
struct Softmax {  // of what has been read so far: sum is in units of exp(highest)
    Real highest, sum;
};

template <typename Real>
__device__ Softmax<Real> joined(Softmax<Real> a, Softmax<Real> b) {
    const Real highest = a.highest > b.highest ? a.highest : b.highest;
    if (!(highest > -INFINITY)) return {highest, a.sum + b.sum};
    return {highest, a.sum * Real(exp(a.highest - highest)) + b.sum * Real(exp(b.highest - highest))};
}

template <typename Real, int SHARING>
__device__ Softmax<Real> joined_over_row(Softmax<Real> own) {
    for (int mask = LANES / 2; mask > 0; mask /= 2) {
        own = joined(own, Softmax<Real>{from_across(own.highest, mask), from_across(own.sum, mask)});
    }
    if (SHARING == ROW_WARP) return own;
    __shared__ Real highest[ROW_BLOCK / LANES], sum[ROW_BLOCK / LANES];
    if (thread() % LANES == 0) highest[thread() / LANES] = own.highest, sum[thread() / LANES] = own.sum;
    wait_for_block();
    own = {highest[0], sum[0]};
    for (int warp = 1; warp < ROW_BLOCK / LANES; ++warp) own = joined(own, Softmax<Real>{highest[warp], sum[warp]});
    return own;
}

template <typename Real, typename Score, int SHARING>
__global__ void rows(Arguments a, Workspace<Real> w) {
    const int64_t row = block() * (threads() / SHARING) + thread() / SHARING;
    if (row >= a.batch * a.frames) return;
    const int own = thread() % SHARING;
    const int64_t b = row / a.frames, t = row % a.frames, at = b * a.batch_stride + t * a.frame_stride;
    const Score* const scores = static_cast<const Score*>(a.logits) + at;
    Score* const gradient = static_cast<Score*>(a.gradient) + (a.gradient ? at : 0);
    const int32_t status = w.status[b];
    if (status != SOUND || t >= a.input_lengths[b]) {
        const Real fill = status == WRONG ? Real(NAN) : Real(0);
        for (int64_t v = own; a.gradient && v < a.outputs; v += SHARING) write(gradient[v], fill);
        return;
    }
    Softmax<Real> softmax{Real(-INFINITY), Real(0)};
    bool nan = false;
    for (int64_t v = own; v < a.outputs; v += SHARING) {
        const Real score = read(scores[v]);
        nan = nan || !(score < INFINITY);
        if (score > softmax.highest) softmax = {score, softmax.sum * Real(exp(softmax.highest - score)) + 1};
        else if (score > -INFINITY) softmax.sum += Real(exp(score - softmax.highest));
    }
    if (nan) softmax.sum = Real(NAN);
    softmax = joined_over_row<Real, SHARING>(softmax);
    const double log_sum = double(softmax.highest) + log(double(softmax.sum));
    const bool sound = log_sum > -INFINITY && log_sum < INFINITY;
    const Real factor = Real(a.weights[b]) / softmax.sum;
    for (int64_t v = own; a.gradient && v < a.outputs; v += SHARING) {
        write(gradient[v], sound ? factor * Real(exp(read(scores[v]) - softmax.highest)) : Real(NAN));
    }
    const double LOG2_E = 1.4426950408889634;
    const int64_t labels = a.target_lengths[b], first = a.target_offsets[b];
    for (int64_t slot = own; slot < w.slots; slot += SHARING) {
        const int pair = pair_in_slot(int(slot), w.pairs_a_thread);
        w.labels[row * w.slots + slot] =
            pair < labels ? scaled_power<Real>((read(scores[a.targets[first + pair]]) - log_sum) * LOG2_E)
                          : zero<Real>();
    }
    if (own == 0) {
        w.blanks[row] = scaled_power<Real>((read(scores[a.blank]) - log_sum) * LOG2_E);
        if (!sound) w.unsound[b] = 1;  // whoever comes first: all write the same
    }
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
struct Edges {  // what the warps of one direction hand over to their neighbours, of this frame and of the one before
    Scaled<Real> values[2][MOST_WARPS];
};

template <typename Real, int P>
struct Frame {  // what a thread needs of a frame
    Scaled<Real> blank, labels[P], kept[P];
};

// One thread's part of one direction through the trellis.
template <typename Real, int P, bool FORWARD>
struct Walk {
    const Arguments& a;
    const Workspace<Real>& w;
    Edges<Real>& edges;
    Scaled<Real>& total;  // probability of all alignments, known to both directions when they have met
    int64_t b, frames, middle;  // alpha keeps the frames below `middle`, beta the others
    int lane, warp;
    unsigned skips;  // bit p: label p may follow the label before it without a blank
    Pair<Real> pairs[P];

    __device__ Walk(const Arguments& a, const Workspace<Real>& w, Edges<Real>& edges, Scaled<Real>& total)
        : a(a), w(w), edges(edges), total(total), b(block()), frames(a.input_lengths[b]), middle((frames + 1) / 2),
          lane(thread() % LANES), warp(thread() / LANES % w.warps), skips(0) {
        const int64_t labels = a.target_lengths[b], first = a.target_offsets[b];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const int64_t j = (warp * LANES + lane) * P + p;
            if (j > 0 && j < labels) skips |= unsigned(a.targets[first + j] != a.targets[first + j - 1]) << p;
            // Before the first frame all mass is on the first blank, behind the last on the last.
            pairs[p] = no_pair<Real>();
            if (j == (FORWARD ? 0 : labels)) pairs[p].blank = {Real(1), 0};
        }
    }

    // Of this thread's pair p in a row of w.slots; see slot_of_pair.
    __device__ int64_t place(int64_t row, int p) const { return row * w.slots + (warp * P + p) * LANES + lane; }

    template <bool MET>
    __device__ Frame<Real, P> fetch(int64_t t) const {
        const int64_t row = b * a.frames + (t < 0 ? 0 : t < frames ? t : frames - 1);  // too far is fetched in vain
        Frame<Real, P> frame;
        frame.blank = w.blanks[row];
#pragma unroll
        for (int p = 0; p < P; ++p) {
            frame.labels[p] = w.labels[place(row, p)];
            if (MET && a.gradient) frame.kept[p] = w.kept[place(row, p)];
        }
        return frame;
    }

    __device__ Scaled<Real> at_the_edge() const { return FORWARD ? pairs[P - 1].label : entrance(pairs[0], skips); }

    // The label of the pair before this thread's first; of beta, what can be entered behind its last.
    __device__ Scaled<Real> neighbour(int64_t t) {
        const Scaled<Real> own = at_the_edge(), handed = FORWARD ? from_below(own) : from_above(own);
        const int outermost = FORWARD ? 0 : LANES - 1;
        if (w.warps > 1) {  // edges of two frames in turn: one barrier a frame is enough
            Scaled<Real>* const row = edges.values[t & 1];
            if (lane == LANES - 1 - outermost) row[warp] = own;
            wait_for_direction();
            const int next = FORWARD ? warp - 1 : warp + 1;
            if (lane == outermost && next >= 0 && next < w.warps) return row[next];
        }
        return lane == outermost ? zero<Real>() : handed;
    }

    __device__ void wait_for_direction() const { wait_for_group(FORWARD ? 1 : 2, w.warps * LANES); }

    template <bool MET>
    __device__ void step(int64_t t, const Frame<Real, P>& frame) {
        const Scaled<Real> outside = neighbour(t);
        Pair<Real> betas[P];
        if (FORWARD) {
            alpha_step<Real, P>(pairs, skips, outside, frame.blank, frame.labels);
        } else {
            beta_step<Real, P>(pairs, skips, outside, frame.blank, frame.labels, betas);
            if (t == middle - 1) meet(betas);
        }
        if (!a.gradient) return;
        const int64_t row = b * a.frames + t;
#pragma unroll
        for (int p = 0; p < P; ++p) {
            const Scaled<Real> found = FORWARD ? pairs[p].label : betas[p].label;
            if (MET) w.posteriors[place(row, p)] = share(found, frame.kept[p], total);
            else w.kept[place(row, p)] = found;
        }
    }

    __device__ int64_t frame_after(int64_t from, int64_t done) const { return FORWARD ? from + done : from - done; }

    template <bool MET>
    __device__ void go(int64_t from, int64_t count) {
        constexpr int ahead = P <= 4 ? AHEAD : 1;
        Frame<Real, P> fetched[ahead];
#pragma unroll
        for (int i = 0; i < ahead; ++i) fetched[i] = fetch<MET>(frame_after(from, i));
        for (int64_t done = 0; done < count; done += ahead) {
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                if (done + i >= count) break;
                const Frame<Real, P> frame = fetched[i];
                fetched[i] = fetch<MET>(frame_after(from, done + i + ahead));
                step<MET>(frame_after(from, done + i), frame);
            }
        }
    }

    __device__ void leave_column() const {
#pragma unroll
        for (int p = 0; p < P; ++p) w.meeting[place(b, p)] = pairs[p];
    }

    // Beta of the frame below the middle, times alpha of the same frame, which the other direction left.
    __device__ void meet(const Pair<Real> (&betas)[P]) {
        Scaled<Real> own = zero<Real>();
#pragma unroll
        for (int p = 0; p < P; ++p) own = normalised(sum(own, mass(w.meeting[place(b, p)], betas[p])));
        for (int mask = LANES / 2; mask > 0; mask /= 2) {
            own = normalised(sum(own, Scaled<Real>{from_across(own.m, mask), from_across(own.e, mask)}));
        }
        // Not the row that the edges of this frame were handed over in: a warp may not have read them yet.
        Scaled<Real>* const row = edges.values[middle & 1];
        if (lane == 0) row[warp] = own;
        wait_for_direction();
        if (warp == 0 && lane == 0) {
            for (int i = 1; i < w.warps; ++i) own = normalised(sum(own, row[i]));
            total = own;
            const double loss = -(log(double(own.m)) + double(own.e) * 0.6931471805599453);
            static_cast<Real*>(a.losses)[b] = !(own.m > 0) ? Real(INFINITY) : loss > 0 ? Real(loss) : Real(0);
        }
        wait_for_block();  // both directions know the total
    }
};

template <typename Real, int P>
__global__ void __launch_bounds__(P <= 4 ? 2 * LANES : 2 * MOST_WARPS * LANES) columns(Arguments a, Workspace<Real> w) {
    __shared__ Edges<Real> edges[2];
    __shared__ Scaled<Real> total;
    const int64_t b = block();
    if (w.status[b] != SOUND || w.unsound[b] || a.input_lengths[b] == 0) {
        const bool wrong = w.status[b] == WRONG || w.unsound[b];
        const Real loss = wrong ? Real(NAN) : w.status[b] == NO_ALIGNMENT ? Real(INFINITY) : Real(0);
        if (thread() == 0) static_cast<Real*>(a.losses)[b] = loss;
        return;
    }
    if (thread() < w.warps * LANES) {
        Walk<Real, P, true> alpha(a, w, edges[0], total);
        alpha.template go<false>(0, alpha.middle);
        alpha.leave_column();
        wait_for_block();  // the column lies ready
        wait_for_block();  // both directions know the total
        if (a.gradient) alpha.template go<true>(alpha.middle, alpha.frames - alpha.middle);
    } else {
        Walk<Real, P, false> beta(a, w, edges[1], total);
        beta.template go<false>(beta.frames - 1, beta.frames - beta.middle);
        wait_for_block();
        beta.template go<true>(beta.middle - 1, a.gradient ? beta.middle : 1);
    }
}

// ---- labels

template <typename Real>
__device__ Real value(Scaled<Real> x) {
    return x.m * power_of_two<Real>(x.e);
}

template <typename Real, typename Score>
__global__ void labels(Arguments a, Workspace<Real> w) {
    const int64_t row = block() * (threads() / LANES) + thread() / LANES;
    if (row >= a.batch * a.frames) return;
    const int lane = thread() % LANES;
    const int64_t b = row / a.frames, t = row % a.frames;
    const Real loss = static_cast<const Real*>(a.losses)[b], weight = Real(a.weights[b]);
    if (w.status[b] != SOUND || loss != loss || t >= a.input_lengths[b]) return;  // `rows` has written the last word
    Score* const gradient = static_cast<Score*>(a.gradient) + b * a.batch_stride + t * a.frame_stride;
    if (loss == INFINITY) {  // labels of probability 0
        for (int64_t v = lane; v < a.outputs; v += LANES) write(gradient[v], Real(0));
        return;
    }
    const int64_t* const keys = w.keys + b * w.sorted;
    const int64_t labels = a.target_lengths[b], start = row * w.slots;
    Real all = 0;
    for (int64_t i = lane; i < labels; i += LANES) {
        const int64_t label = label_of(keys[i]), own = start + slot_of_pair(position_of(keys[i]), w.pairs_a_thread);
        all += w.posteriors[own];
        if (i > 0 && label_of(keys[i - 1]) == label) continue;
        Real posterior = 0;
        for (int64_t k = i; k < labels && label_of(keys[k]) == label; ++k) {
            posterior += w.posteriors[start + slot_of_pair(position_of(keys[k]), w.pairs_a_thread)];
        }
        write(gradient[label], weight * (value(w.labels[own]) - posterior));
    }
    for (int mask = LANES / 2; mask > 0; mask /= 2) all += from_across(all, mask);
    if (lane == 0) write(gradient[a.blank], weight * (value(w.blanks[row]) - (Real(1) - all)));
}

// ---- all together

template <typename Real, int P>
void start_columns(const Arguments& a, const Workspace<Real>& w, Stream stream) {
    start(columns<Real, P>, a.batch, 2 * w.warps * LANES, stream, a, w);
}

template <typename Real, typename Score>
void run(const Arguments& a, Stream stream) {
    const Workspace<Real> w = lay_out<Real>(a);
    const int64_t all = a.batch * a.frames, a_block = ROW_BLOCK / LANES;
    start(check<Real>, a.batch, SORTING, stream, a, w);
    if (a.outputs < WIDE) start(rows<Real, Score, ROW_WARP>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
    else start(rows<Real, Score, ROW_BLOCK>, all, ROW_BLOCK, stream, a, w);
    switch (w.pairs_a_thread) {
        case 1: start_columns<Real, 1>(a, w, stream); break;
        case 2: start_columns<Real, 2>(a, w, stream); break;
        case 4: start_columns<Real, 4>(a, w, stream); break;
        case 8: start_columns<Real, 8>(a, w, stream); break;
        default: start_columns<Real, 32>(a, w, stream);
    }
    if (a.gradient) start(labels<Real, Score>, (all + a_block - 1) / a_block, ROW_BLOCK, stream, a, w);
}

}  // namespace ctc

// Labels of one utterance that the kernels can hold.
extern "C" int64_t ds2_ctc_most_labels() { return ctc::MOST_WARPS * ctc::LANES * 32 - 1; }

// Bytes of workspace that ds2_ctc needs for these arguments.
extern "C" int64_t ds2_ctc_workspace(const ctc::Arguments* arguments) {
    ctc::Arguments a = *arguments;
    a.workspace = nullptr;
    return a.type == ctc::FLOAT64 ? ctc::lay_out<double>(a).bytes : ctc::lay_out<float>(a).bytes;
}

// Enqueues everything on the stream and returns; 0, or the number of a CUDA error.
extern "C" int ds2_ctc(const ctc::Arguments* a, void* stream_pointer) {
    const Stream stream = static_cast<Stream>(stream_pointer);
    switch (a->type) {
        case ctc::FLOAT64: ctc::run<double, double>(*a, stream); break;
        case ctc::BFLOAT16: ctc::run<float, ctc::Bfloat16>(*a, stream); break;
        case ctc::FLOAT16: ctc::run<float, Half>(*a, stream); break;
        default: ctc::run<float, float>(*a, stream);
    }
    return last_error();
}
