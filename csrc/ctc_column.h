// One column of CTC's trellis: the arithmetic of alpha and beta, for the GPU and, in the tests, for the CPU.
//
// The states of the targets "a b" lie in pairs, a blank and the label after it; the last pair has no label:
//
//     pair 0   blank o--o--o          alpha:  blank[j] = y_blank (blank[j] + label[j-1])
//              a       o--o--o                label[j] = y_j (label[j] + blank[j] + label[j-1] if label j differs)
//     pair 1   blank     o--o--o      beta:   blank[j] = y.blank[j] + y.label[j]
//              b         . o--o--o            label[j] = y.label[j] + y.blank[j+1] + y.label[j+1] if label j+1 differs
//     pair 2   blank     . . o--o     beta leaves its own frame's emission out: alpha beta is the mass through a state.
//
// Numbers are those of scaled_number.h. A step lets m grow: a column is normalised to 1 <= m < 2 only every AT_EASE
// steps, which saves a third of the instructions. A state that no path reaches is exactly 0, and so needs no mask.
#pragma once

#include "scaled_number.h"

namespace ctc {

constexpr int AT_EASE = 4;  // steps between two calls of `normalise`: m < 2 * 6^4, e >= 5 * LOWEST
constexpr int LANES = 32;

template <typename Real>
struct alignas(16) Pair {
    Scaled<Real> blank, label;
};

template <typename Real>
BOTH Pair<Real> no_pair() {
    return {zero<Real>(), zero<Real>()};
}

// alpha of the next frame in place of this one's. `left` is the label of the pair before the first.
// Bit p of `skips`: label p may follow the label before it without a blank.
template <typename Real, int P>
BOTH void alpha_step(Pair<Real> (&pairs)[P], unsigned skips, Scaled<Real> left, Scaled<Real> blank,
                     const Scaled<Real> (&labels)[P]) {
#pragma unroll
    for (int p = P - 1; p >= 0; --p) {
        const Pair<Real> old = pairs[p];
        const Scaled<Real> to_blank = sum(old.blank, p > 0 ? pairs[p > 0 ? p - 1 : 0].label : left);
        const Scaled<Real> to_label = sum(old.label, skips >> p & 1 ? to_blank : old.blank);
        pairs[p] = {product(to_blank, blank), product(to_label, labels[p])};
    }
}

// What the label before this pair can go to within it: `all` of it, or the blank alone.
template <typename Real>
BOTH Scaled<Real> entrance(Pair<Real> pair, Scaled<Real> all, unsigned skip) {
    return skip & 1 ? all : pair.blank;
}

// `pairs`: beta times emission, of the frame before in place of this one's. `betas` receives beta without emission.
// `right` is the entrance of the pair after the last.
template <typename Real, int P>
BOTH void beta_step(Pair<Real> (&pairs)[P], unsigned skips, Scaled<Real> right, Scaled<Real> blank,
                    const Scaled<Real> (&labels)[P], Pair<Real> (&betas)[P]) {
    Scaled<Real> after = right;
#pragma unroll
    for (int p = P - 1; p >= 0; --p) {
        betas[p] = {sum(pairs[p].blank, pairs[p].label), sum(pairs[p].label, after)};
        after = entrance(pairs[p], betas[p].blank, skips >> p);
        pairs[p] = {product(betas[p].blank, blank), product(betas[p].label, labels[p])};
    }
}

template <typename Real, int P>
BOTH void normalise(Pair<Real> (&pairs)[P]) {
#pragma unroll
    for (int p = 0; p < P; ++p) pairs[p] = {normalised(pairs[p].blank), normalised(pairs[p].label)};
}

template <typename Real>
BOTH Scaled<Real> mass(Pair<Real> alpha, Pair<Real> beta) {
    return normalised(sum(product(alpha.blank, beta.blank), product(alpha.label, beta.label)));
}

// alpha beta / total, an ordinary number from 0 to 1. `inverse` is 1 / total, with an exponent from -LOWEST down to 0.
template <typename Real>
BOTH Real share(Scaled<Real> alpha, Scaled<Real> beta, Scaled<Real> inverse) {
    return alpha.m * beta.m * inverse.m * power_of_two<Real>(alpha.e + beta.e + inverse.e + Format<Real>::BIAS);
}

// Pairs in memory: each of 32 lanes holds P = 2^power pairs in a row, and the lanes write side by side.
//
//     slot of a warp   0 .. 31              32 .. 63                    pair = (warp * 32 + lane) * P + p
//     pair             0, P, 2 P, ...       1, P + 1, 2 P + 1, ...      slot = p * 32 + lane
BOTH int warp_of_pair(int pair, int power) { return pair >> power >> 5; }
BOTH int slot_of_pair(int pair, int power) { return (pair & ((1 << power) - 1)) * LANES + (pair >> power) % LANES; }

}  // namespace ctc
