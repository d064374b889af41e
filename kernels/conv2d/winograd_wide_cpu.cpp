// Winograd's convolution by matrix products, one a frequency.
//
// Tiles are taken in chunks whose transforms stay in the second cache: inputs are transformed, multiplied and
// transformed back while they are there. What a chunk holds depends on the shapes and the instruction set.
#include <omp.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/conv2d/winograd_tiling.h"
#include "kernels/shared/for_isa.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const WinogradKernels* winograd_kernels(std::int64_t filter))

const WinogradKernels* winograd_kernels(Isa isa, std::int64_t filter) {
  return for_isa(
      isa, [=] { return plain::winograd_kernels(filter); }, [=] { return avx2::winograd_kernels(filter); },
      [=] { return avx512::winograd_kernels(filter); });
}

namespace {

/// Between the matrices of two frequencies, lest all of them lie at the same place of a cache.
constexpr std::int64_t skew = 16;

const WinogradKernels& kernels_for(CpuDevice& device, const Tensor& filters) {
  const WinogradKernels* const kernels = winograd_kernels(device.isa(), filters.shape[0]);
  check(kernels != nullptr && filters.shape[0] == filters.shape[1], "no Winograd convolution for such a filter");
  return *kernels;
}

/// The tiles whose transforms of `tile_floats` each fill about a core's second cache, `least` at least.
std::int64_t tiles_in_cache(std::int64_t tile_floats, std::int64_t least) {
  constexpr std::int64_t cache_floats = std::int64_t{1} << 18;
  return std::max(cache_floats / tile_floats, least);
}

/// filters [r, r, c, o] turned by half a circle, channels and filters exchanged: [r, r, o, c], for filters in `part`.
void rotate(const float* filters, std::int64_t r, std::int64_t c, std::int64_t o, ThreadShare part, float* rotated) {
  for (std::int64_t k = 0; k < r * r; ++k) {
    const float* const from = filters + (r * r - 1 - k) * c * o;
    float* const to = rotated + k * c * o;
    for (std::int64_t j = part.first; j < part.last; ++j) {
      for (std::int64_t i = 0; i < c; ++i) to[j * c + i] = from[i * o + j];
    }
  }
}

class WideConvolution final : public Conv2dPassCpu {
 public:
  WideConvolution(CpuDevice& device, const WinogradConvolution& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.filters)),
        tiling_(task.x, task.y, kernels_.tile, rows_before(), columns_before()),
        v_columns_(whole_vectors(channels())),
        m_columns_(whole_vectors(filters())) {
    const std::int64_t frequencies = kernels_.frequencies, threads = device.thread_count();
    // Filters are read from the third cache once a chunk: enough tiles for that to be hidden behind the products.
    constexpr std::int64_t least_tiles = 48;
    chunk_tiles_ = std::min(tiles_in_cache(frequencies * (v_columns_ + m_columns_), least_tiles),
                            ceil_divide(tiling_.tiles, threads));
    WorkspaceLayout layout;
    zeros_ = layout.add(channels());
    rotated_ = layout.add(task.rotated ? kernels_.filter * kernels_.filter * channels() * filters() : 0);
    u_ = layout.add(frequencies * (channels() * m_columns_ + skew));
    v_ = layout.add(threads * frequencies * (chunk_tiles_ * v_columns_ + skew));
    m_ = layout.add(threads * frequencies * (chunk_tiles_ * m_columns_ + skew));
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    std::fill_n(workspace + zeros_, channels(), 0.0f);
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      const WinogradMatrices u = transform_filters(workspace, thread, threads);
#pragma omp barrier
      convolve(workspace, u, thread, ThreadShare(tiling_.tiles, thread, threads));
    }
  }

 private:
  // Of this pass, in which dz may stand for x.
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.y.shape[3]; }
  std::int64_t rows_before() const { return before(task_.rows_before); }
  std::int64_t columns_before() const { return before(task_.columns_before); }
  std::int64_t before(std::int64_t own) const { return task_.rotated ? kernels_.filter - 1 - own : own; }
  std::int64_t whole_vectors(std::int64_t count) const { return ceil_divide(count, kernels_.lanes) * kernels_.lanes; }

  /// U, of which each thread makes a part.
  WinogradMatrices transform_filters(float* workspace, int thread, int threads) const {
    const WinogradMatrices u{workspace + u_, m_columns_, channels() * m_columns_ + skew};
    const ThreadShare mine(channels(), thread, threads);
    const float* source = task_.filters.floats().data();
    if (task_.rotated) {
      rotate(source, kernels_.filter, filters(), channels(), mine, workspace + rotated_);
      source = workspace + rotated_;
    }
    kernels_.transform_filters(source, channels(), filters(), mine.first, mine.last, u);
    return u;
  }

  void convolve(float* workspace, const WinogradMatrices& u, int thread, const ThreadShare& mine) const {
    const std::int64_t v_stride = chunk_tiles_ * v_columns_ + skew, m_stride = chunk_tiles_ * m_columns_ + skew;
    const WinogradMatrices v{workspace + v_ + thread * kernels_.frequencies * v_stride, v_columns_, v_stride};
    const WinogradMatrices m{workspace + m_ + thread * kernels_.frequencies * m_stride, m_columns_, m_stride};
    const float* const bias = task_.bias ? task_.bias.floats().data() : nullptr;
    for (std::int64_t first = mine.first; first < mine.last; first += chunk_tiles_) {
      const std::int64_t count = std::min(chunk_tiles_, mine.last - first);
      kernels_.transform_inputs(task_.x.floats().data(), tiling_.inputs, workspace + zeros_, first, count, 0, v);
      kernels_.multiply(v, u, count, channels(), m);
      kernels_.transform_outputs(m, tiling_.outputs, bias, task_.relu, first, count, task_.y.floats().data());
    }
  }

  CpuDevice& device_;
  WinogradConvolution task_;
  const WinogradKernels& kernels_;
  WinogradTiling tiling_;
  std::int64_t v_columns_, m_columns_, chunk_tiles_;
  std::size_t zeros_, rotated_, u_, v_, m_;  ///< places in the workspace, in floats; a V and an M for each thread
};

class WideFilterGradient final : public Conv2dPassCpu {
 public:
  WideFilterGradient(CpuDevice& device, const WinogradFilterGradient& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.dw)),
        tiling_(task.x, task.dz, kernels_.tile, task.rows_before, task.columns_before) {
    const std::int64_t lanes = kernels_.lanes, frequencies = kernels_.frequencies;
    v_.columns = ceil_divide(channels(), lanes) * lanes;
    z_.columns = w_.columns = ceil_divide(filters(), lanes) * lanes;
    // The sums are read and written once a block: enough tiles for that to be hidden behind the products.
    constexpr std::int64_t least_tiles = 96;
    block_tiles_ = std::min(tiles_in_cache(frequencies * (v_.columns + z_.columns), least_tiles), tiling_.tiles);
    const std::int64_t rows = std::min(block_tiles_ * device.thread_count(), tiling_.tiles);
    v_.stride = rows * v_.columns + skew;
    z_.stride = rows * z_.columns + skew;
    w_.stride = channels() * w_.columns + skew;
    WorkspaceLayout layout;
    zeros_at_ = layout.add(std::max(channels(), filters()));
    v_at_ = layout.add(frequencies * v_.stride);
    z_at_ = layout.add(frequencies * z_.stride);
    w_at_ = layout.add(frequencies * w_.stride);
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    zeros_ = workspace + zeros_at_;
    v_.data = workspace + v_at_;
    z_.data = workspace + z_at_;
    w_.data = workspace + w_at_;
    std::fill_n(zeros_, std::max(channels(), filters()), 0.0f);
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      const std::int64_t chunk_tiles = block_tiles_ * threads;
      for (std::int64_t first = 0; first < tiling_.tiles; first += chunk_tiles) {
        const std::int64_t count = std::min(chunk_tiles, tiling_.tiles - first);
        transform(first, ThreadShare(count, thread, threads));
#pragma omp barrier
        multiply(first, count, ThreadShare(kernels_.frequencies * channels(), thread, threads));
#pragma omp barrier
      }
      const ThreadShare mine(channels(), thread, threads);
      kernels_.transform_filter_gradients(w_, channels(), filters(), mine.first, mine.last, task_.dw.floats().data());
    }
  }

 private:
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.dz.shape[3]; }

  /// V and Z for a part of the chunk that begins at tile `first`.
  void transform(std::int64_t first, const ThreadShare& part) const {
    const std::int64_t count = part.last - part.first;
    kernels_.transform_inputs(task_.x.floats().data(), tiling_.inputs, zeros_, first + part.first, count, part.first,
                              v_);
    kernels_.transform_output_gradients(task_.dz.floats().data(), tiling_.outputs, zeros_, first + part.first, count,
                                        part.first, z_);
  }

  /// Adds the chunk's products to a part of the sums, which are numbered by frequency and channel.
  void multiply(std::int64_t first, std::int64_t count, const ThreadShare& part) const {
    for (std::int64_t at = part.first; at < part.last;) {
      const std::int64_t frequency = at / channels(), channel = at % channels();
      const std::int64_t last = std::min(channels(), channel + part.last - at);
      kernels_.multiply_transposed(v_, z_, count, block_tiles_, static_cast<int>(frequency), channel, last, first > 0,
                                   w_);
      at += last - channel;
    }
  }

  CpuDevice& device_;
  WinogradFilterGradient task_;
  const WinogradKernels& kernels_;
  WinogradTiling tiling_;
  std::int64_t block_tiles_;  ///< of a block, which is summed on its own
  WinogradMatrices v_{}, z_{}, w_{};
  float* zeros_ = nullptr;
  std::size_t zeros_at_, v_at_, z_at_, w_at_;  ///< places in the workspace, in floats
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradConvolution& task) {
  return std::make_unique<WideConvolution>(device, task);
}
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradFilterGradient& task) {
  return std::make_unique<WideFilterGradient>(device, task);
}

}  // namespace carillon
