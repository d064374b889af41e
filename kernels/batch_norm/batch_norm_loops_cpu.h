// The loops of batch_norm on a CPU over some rows [rows, width], vectorised along a row. All activations and their
// gradients have one type, float32 or bf16.
#pragma once

#include <cstddef>

#include "kernels/elementwise/elementwise.h"
#include "kernels/shared/float_type.h"

namespace carillon::batch_norm_loops {

/// Number of rows that are added in float32 before their sum is added to a float64 sum.
inline constexpr std::size_t block_rows = 32;

/// Two sums of each column over some rows. Each is an array [width].
struct BlockSums {
  float *first, *second;
};

/// The members of ChannelNorm and ChannelGradient for each column of a row, as arrays [width].
struct NormRows {
  const float *centre, *scale, *offset;
};
struct GradientRows {
  const float *direct, *slope, *constant;
};

/// Sets first = sum of (x - x[0]) and second = sum of (x - x[0])^2. x[0] is the first row.
void sum_distances(ElementPointer x, std::size_t rows, std::size_t width, const BlockSums& sums);

/// Merges the moments of `rows` rows, which sum_distances computed, into the moments of `rows_before` earlier rows.
/// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
void merge_moments(ElementPointer first_row, const BlockSums& sums, std::size_t rows_before, std::size_t rows,
                   std::size_t width, double* mean, double* squares);

/// Sets first = sum of dz and second = sum of dz (x - centre). If the activation is expensive, writes dz to dy.
void sum_gradients(ElementPointer x, ElementPointer dy, const NormRows& norm, ActivationKind activation,
                   std::size_t rows, std::size_t width, const BlockSums& sums);

/// Adds `sums` to `first` and `second`, [width] each, in float64.
void add_sums(const BlockSums& sums, std::size_t width, double* first, double* second);

/// Replaces dy by dz = dy f'(z + addend). Computes f' from y = f(z + addend). f: ReLU, or the identity (which changes
/// nothing).
void replace_dy_by_dz(ElementPointer y, ActivationKind activation, std::size_t count, ElementPointer dy);

/// Computes y = f(z).
void normalise(ElementPointer x, const NormRows& norm, ActivationKind activation, std::size_t rows, std::size_t width,
               ElementPointer y);

/// Computes y = f(z + addend). f: identity or ReLU.
void normalise_and_add(ElementPointer x, ElementPointer addend, const NormRows& norm, ActivationKind activation,
                       std::size_t rows, std::size_t width, ElementPointer y);

/// Computes dx from the values that sum_gradients has left in dy. If replace_dy_by_dz has been called, `activation`
/// must be none. dx may be dy.
void find_gradients(ElementPointer x, ElementPointer dy, const NormRows& norm, const GradientRows& gradient,
                    ActivationKind activation, std::size_t rows, std::size_t width, ElementPointer dx);

}  // namespace carillon::batch_norm_loops
