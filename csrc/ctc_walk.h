// The third kernel of ctc.cu: one block an utterance. Alpha and beta walk through the trellis, from both ends.
#pragma once

#include "ctc_workspace.h"

namespace ctc {

template <typename Real>
__device__ Scaled<Real> from_below(Scaled<Real> x) {
    return {::from_below(x.m, 1), ::from_below(x.e, 1)};
}
template <typename Real>
__device__ Scaled<Real> from_above(Scaled<Real> x) {
    return {::from_above(x.m, 1), ::from_above(x.e, 1)};
}

template <typename Real>
struct Edges {  // what the warps of one direction pass to their neighbours before each frame of two bursts
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
            // Before the first frame all mass is on the first blank, after the last frame on the last.
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

    // What the next warp needs before frame i of a burst: of alpha the last label, of beta the entrance of the first pair.
    __device__ Scaled<Real> hand_on(int burst, int i) {
        const Scaled<Real> edge =
            FORWARD ? pairs[P - 1].label : entrance(pairs[0], sum(pairs[0].blank, pairs[0].label), skips);
        if (lane == LANES - 1 - OUTERMOST) edges.values[burst & 1][i][warp] = edge;
        return edge;
    }

    // What the warp before passed on.
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

    // Beta of the frame before the middle, times alpha of the same frame, which the other direction has stored.
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
        Scaled<Real>* const row = edges.values[1][0];  // not where edges were passed on: a slower warp may still read them
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
        normalise<Real, P>(pairs);
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
        wait_for_block();  // the column is stored
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

}  // namespace ctc
