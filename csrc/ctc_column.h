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
// Numbers are linear, not logarithms, but have an exponent of their own, of 30 bits: m 2^e. A sum of two or three costs
// a maximum, shifts of exponents and additions; nothing underflows, whatever the logits and however long the targets;
// errors stay relative, some 2^-24 a frame. A state that no path reaches is exactly 0, and so needs no mask.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define BOTH __host__ __device__ __forceinline__
#else
#define BOTH inline
#endif

namespace ctc {

constexpr int LOWEST = -(1 << 29);  // exponent of 0; what falls below is 0: a path that costs more than 3.7e8 nats
constexpr int LANES = 32;

template <typename Real>
struct alignas(2 * sizeof(Real)) Scaled {  // m 2^e; 1 <= m < 2 after `normalised`, below 12 before it
    Real m;
    int e;
};

template <typename Real>
struct alignas(16) Pair {
    Scaled<Real> blank, label;
};

template <typename Real>
BOTH Scaled<Real> zero() {
    return {Real(0), LOWEST};
}

template <typename Real>
BOTH Pair<Real> no_pair() {
    return {zero<Real>(), zero<Real>()};
}

template <typename To, typename From>
BOTH To bits_of(From from) {
    To to;
    memcpy(&to, &from, sizeof(to));
    return to;
}

template <typename Real>
struct Format;
template <>
struct Format<float> {
    typedef int32_t Bits;
    static constexpr int MANTISSA = 23, BIAS = 127;
};
template <>
struct Format<double> {
    typedef int64_t Bits;
    static constexpr int MANTISSA = 52, BIAS = 1023;
};

// 2^exponent; 0 where that is below the smallest normal number.
template <typename Real>
BOTH Real power_of_two(int exponent) {
    typedef Format<Real> F;
    int biased = exponent + F::BIAS;
    biased = biased < 0 ? 0 : biased > 2 * F::BIAS ? 2 * F::BIAS : biased;
    return bits_of<Real>(typename F::Bits(biased) << F::MANTISSA);
}

// The same number with 1 <= m < 2. 0 has the exponent field 0 and LOWEST beside it, and so falls below LOWEST.
template <typename Real>
BOTH Scaled<Real> normalised(Scaled<Real> x) {
    typedef Format<Real> F;
    const typename F::Bits bits = bits_of<typename F::Bits>(x.m);
    const int extra = int(bits >> F::MANTISSA) - F::BIAS;
    const int e = x.e + extra;
    return e < LOWEST ? zero<Real>() : Scaled<Real>{bits_of<Real>(bits - (typename F::Bits(extra) << F::MANTISSA)), e};
}

template <typename Real>
BOTH Scaled<Real> sum(Scaled<Real> a, Scaled<Real> b) {
    const int e = a.e > b.e ? a.e : b.e;
    return {a.m * power_of_two<Real>(a.e - e) + b.m * power_of_two<Real>(b.e - e), e};
}

template <typename Real>
BOTH Scaled<Real> sum(Scaled<Real> a, Scaled<Real> b, Scaled<Real> c) {
    const int pair = a.e > b.e ? a.e : b.e, e = pair > c.e ? pair : c.e;
    return {a.m * power_of_two<Real>(a.e - e) + b.m * power_of_two<Real>(b.e - e) + c.m * power_of_two<Real>(c.e - e),
            e};
}

template <typename Real>
BOTH Scaled<Real> product(Scaled<Real> a, Scaled<Real> b) {
    return normalised(Scaled<Real>{a.m * b.m, a.e + b.e});
}

// 2^x as a scaled number; the fraction is taken in double precision, for x may be far below 0.
template <typename Real>
BOTH Scaled<Real> scaled_power(double x) {
    if (!(x > LOWEST)) return zero<Real>();
    const double whole = floor(x);
    return {Real(exp2(Real(x - whole))), int(whole)};
}

// alpha of the next frame in place of this one's. `left` is the label of the pair before the first.
// Bit p of `skips`: label p may follow the label before it without a blank.
template <typename Real, int P>
BOTH void alpha_step(Pair<Real> (&pairs)[P], unsigned skips, Scaled<Real> left, Scaled<Real> blank,
                     const Scaled<Real> (&labels)[P]) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int p = P - 1; p >= 0; --p) {
        const Scaled<Real> before = p > 0 ? pairs[p > 0 ? p - 1 : 0].label : left;
        const Pair<Real> old = pairs[p];
        const Scaled<Real> skipped = skips >> p & 1 ? before : zero<Real>();
        pairs[p].blank = product(sum(old.blank, before), blank);
        pairs[p].label = product(sum(old.label, old.blank, skipped), labels[p]);
    }
}

// What the label before this pair can go to within it. `pair` is beta times emission.
template <typename Real>
BOTH Scaled<Real> entrance(Pair<Real> pair, unsigned skip) {
    return skip & 1 ? sum(pair.blank, pair.label) : pair.blank;
}

// `pairs`: beta times emission, of the frame before in place of this one's. `betas` receives beta without emission.
// `right` is the entrance of the pair after the last.
template <typename Real, int P>
BOTH void beta_step(Pair<Real> (&pairs)[P], unsigned skips, Scaled<Real> right, Scaled<Real> blank,
                    const Scaled<Real> (&labels)[P], Pair<Real> (&betas)[P]) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int p = 0; p < P; ++p) {
        const Scaled<Real> after = p + 1 < P ? entrance(pairs[p + 1 < P ? p + 1 : p], skips >> (p + 1)) : right;
        betas[p] = {sum(pairs[p].blank, pairs[p].label), sum(pairs[p].label, after)};
        pairs[p] = {product(betas[p].blank, blank), product(betas[p].label, labels[p])};
    }
}

template <typename Real>
BOTH Scaled<Real> mass(Pair<Real> alpha, Pair<Real> beta) {
    return normalised(sum(product(alpha.blank, beta.blank), product(alpha.label, beta.label)));
}

// alpha beta / total, an ordinary number from 0 to 1.
template <typename Real>
BOTH Real share(Scaled<Real> alpha, Scaled<Real> beta, Scaled<Real> total) {
    return alpha.m * beta.m / total.m * power_of_two<Real>(alpha.e + beta.e - total.e);
}

// Where pair j lies in memory when each of 32 lanes holds P pairs in a row and the lanes write side by side.
BOTH int slot_of_pair(int j, int P) {
    const int group = LANES * P, within = j % group;
    return j - within + within % P * LANES + within / P;
}

BOTH int pair_in_slot(int slot, int P) {
    const int group = LANES * P, within = slot % group;
    return slot - within + within % LANES * P + within / LANES;
}

}  // namespace ctc
