// Numbers with an exponent of their own, m 2^e, for products over thousands of frames: on the GPU and, in the tests, on
// the CPU.
//
// They are linear, not logarithms. A sum of two costs a maximum, two shifts and two multiplications; nothing underflows,
// whatever the logits and however long the targets; errors stay relative, some 2^-23 a frame.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "threads.h"

#ifdef __CUDACC__
#define BOTH __host__ __device__ __forceinline__
#else
#define BOTH inline
#endif

namespace ctc {

constexpr int LOWEST = -(1 << 27);  // exponent of 0; less is 0: a path that costs more than 9.3e7 nats
constexpr double LOG2_E = 1.4426950408889634, LN_2 = 0.6931471805599453;

template <typename Real>
struct alignas(2 * sizeof(Real)) Scaled {  // m 2^e; 1 <= m < 2 after `normalised`, or 0
    Real m;
    int e;
};

template <typename Real>
BOTH Scaled<Real> zero() {
    return {Real(0), LOWEST};
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

// 2^(biased - BIAS); 0 where that is below the smallest normal number.
template <typename Real>
BOTH Real power_of_two(int biased) {
    typedef Format<Real> F;
    return bits_of<Real>(typename F::Bits(biased > 0 ? biased : 0) << F::MANTISSA);
}

// The same number with 1 <= m < 2. 0 has the exponent field 0 and LOWEST at most beside it: it falls below LOWEST.
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
    const int e = a.e > b.e ? a.e : b.e, bias = Format<Real>::BIAS - e;
    return {a.m * power_of_two<Real>(a.e + bias) + b.m * power_of_two<Real>(b.e + bias), e};
}

template <typename Real>
BOTH Scaled<Real> product(Scaled<Real> a, Scaled<Real> b) {
    return {a.m * b.m, a.e + b.e};
}

// exp(high + low) as a scaled number, m about 1; `low` is what `high` lacks to the last digit.
template <typename Real>
BOTH Scaled<Real> scaled_exponential(Real high, Real low) {
    const Real x = high * Real(LOG2_E);
    if (!(x > LOWEST)) return zero<Real>();
    const Real whole = rint(x);
    const Real rest = fma(high, Real(LOG2_E), -x) + (high * Real(LOG2_E - double(Real(LOG2_E))) + low * Real(LOG2_E));
    return {fast_exp2(x - whole + rest), int(whole)};
}

}  // namespace ctc
