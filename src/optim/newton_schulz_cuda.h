// NewtonSchulzCuda: runs the iteration of newton_schulz.h on a GPU for many matrices. cuBLASLt computes the products;
// the kernels in this file run before and after the products. CUDA builds only.
//
//   A = X X^T            B = b A + c A A            X <- a X + B X            three products per iteration
//
// Matrices of equal shape are in one array, and the distances between them are equal, so that one batched product
// processes all of them. In fp32 and tf32, X, A and B are float32; in bf16 they are bfloat16. Sums are always float32.
#pragma once

#include <cmath>
#include <vector>

#include "kernels/shared/matrix_product_cuda.h"
#include "kernels/shared/pack.h"
#include "src/optim/newton_schulz.h"
#include "src/optim/norm_kernels.h"

namespace carillon {

/// A matrix in a flat float32 array. Zeros fill the gap after the matrix, up to the next multiple of line_floats.
struct FlatMatrix {
  std::size_t first = 0;  ///< index of its first element; a multiple of line_floats
  MatrixShape shape;
  std::uint32_t variable = 0;  ///< index of the variable
};

/// A stack: matrices of equal shape, at equal distances, in an array of the iteration.
struct MatrixStack {
  MatrixShape shape;
  std::size_t first = 0;   ///< index of its first element
  std::size_t stride = 0;  ///< elements from one matrix to the next, a multiple of line_floats
  std::vector<FlatMatrix> matrices;
};

/// Part of a matrix. Positions and lengths count elements.
struct MatrixChunk {
  std::uint64_t flat = 0, stacked = 0;  ///< position of the first element in the flat array and in the array of the
                                        ///< iteration
  std::uint32_t count = 0;              ///< number of elements of the matrix in the chunk
  std::uint32_t padded = 0;             ///< `count`, plus the length of the gap after the matrix; a multiple of
                                        ///< line_floats
  std::uint32_t variable = 0;
};

class NewtonSchulzCuda {
 public:
  /// `elements`: number of elements of the flat array. Errors: as MatrixProductCuda.
  NewtonSchulzCuda(CudaDevice& device, Arithmetic arithmetic, const std::vector<FlatMatrix>& matrices,
                   std::size_t elements, std::int64_t steps);

  /// Returns the flat array [elements] that must hold the matrices before `enqueue`. `enqueue` overwrites it.
  float* input() const { return static_cast<float*>(first_.data()); }
  /// Returns the flat array that holds the orthogonalised matrices after `enqueue`.
  const float* result() const { return static_cast<const float*>(result_memory().data()); }
  /// `factors` [variable]: 1 / norm of each matrix.
  void enqueue(const float* factors, Stream& stream) const;

 private:
  /// The three products of one iteration on a stack of matrices, set up for operands in `first_`.
  struct Iteration {
    std::size_t offset;  ///< in bytes: distance of the stack from the start of each array of the iteration
    MatrixProductCuda make_gram, make_factor, multiply;
    bool is_tall;
  };

  Iteration make_iteration(CudaDevice& device, Arithmetic arithmetic, const MatrixStack& stack) const;
  void iterate(const Iteration& stack, Stream& stream) const;
  /// Before the first step, `first_` holds the flat matrices and `second_` holds the stacks.
  const Buffer& stacked_memory(std::int64_t step) const { return step % 2 == 0 ? second_ : first_; }
  const Buffer& result_memory() const { return stacked_memory(steps_ + 1); }

  std::int64_t steps_;
  DType type_;  ///< element type of the iteration
  Buffer first_, second_, gram_, factor_, chunks_;
  int chunk_count_ = 0;
  std::vector<Iteration> iterations_;
};

/// Sets ratios[variable] and inverse_norms[variable] from the variable's sums of squares. One thread per variable.
struct MatrixOfVariable {
  const ChunkRange* ranges = nullptr;          ///< [variable]
  const Squares* sums = nullptr;               ///< [chunk]
  const UpdateFactors* of_variable = nullptr;  ///< [variable]
  StepTable table;
  float* ratios = nullptr;                ///< [variable] the factor UpdateFactors::kept
  float* inverse_norms = nullptr;         ///< [variable] 1 / (norm of the direction + epsilon); 0 if the norm is 0
  const std::int64_t* columns = nullptr;  ///< [variable] columns of the variable's matrix; null: no normalisation
                                          ///< (muon_normalizes)

  CARILLON_HOST_DEVICE void operator()(std::int64_t variable) const {
    const Squares squares = sum_of(ranges[variable], sums);
    ratios[variable] = columns == nullptr ? 1.0f : normalizing_factor(columns[variable], squares);
    const double norm = std::sqrt(squares.direction);
    inverse_norms[variable] = norm > 0.0 ? static_cast<float>(1.0 / (norm + NewtonSchulzForm::epsilon)) : 0.0f;
  }
};

/// Copies matrices, including their gaps, from the flat array to the stacks: to[stacked] = factor of the variable *
/// from[flat]. One block processes one chunk.
template <typename T>
struct StackScaled {
  using Shared = NoShared;
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 1;

  const MatrixChunk* chunks = nullptr;  ///< [chunk_count]; one block per element
  int chunk_count = 0;
  const float* factors = nullptr;  ///< [variable] 1 / norm of the variable's matrix
  const float* from = nullptr;
  T* to = nullptr;

  int blocks() const { return chunk_count; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    constexpr int n = FlatShare::pack;
    const MatrixChunk chunk = chunks[block];
    const float factor = factors[chunk.variable];
    for (std::uint32_t i = static_cast<std::uint32_t>(thread) * n; i < chunk.padded; i += threads * n) {
      Pack<float, n> values = load<n>(from + chunk.flat + i);
      for (int k = 0; k < n; ++k) values.at[k] *= factor;
      store_floats(values, to + chunk.stacked + i);
    }
  }
};

/// Copies matrices from the stacks to the flat array: to[flat] = from[stacked]. Writes 0 to the gaps. One block
/// processes one chunk.
template <typename T>
struct Unstack {
  using Shared = NoShared;
  static constexpr int threads = FlatShare::threads;
  static constexpr int phases = 1;

  const MatrixChunk* chunks = nullptr;  ///< [chunk_count]
  int chunk_count = 0;
  const T* from = nullptr;
  float* to = nullptr;

  int blocks() const { return chunk_count; }
  template <int phase>
  CARILLON_HOST_DEVICE void run(Shared&, int block, int thread) const {
    constexpr int n = FlatShare::pack;
    const MatrixChunk chunk = chunks[block];
    for (std::uint32_t i = static_cast<std::uint32_t>(thread) * n; i < chunk.padded; i += threads * n) {
      Pack<float, n> values = load_floats<n>(from + chunk.stacked + i);
      for (std::uint32_t k = 0; k < n; ++k) {
        if (i + k >= chunk.count) values.at[k] = 0.0f;
      }
      store(values, to + chunk.flat + i);
    }
  }
};

}  // namespace carillon
