// Winograd's convolution by matrix products, one per frequency.
//
// Tiles are processed in chunks. The inputs of a chunk are transformed, multiplied and transformed back while the
// chunk's transforms are in the second-level cache. For layers with hundreds of channels, the transforms are in the
// third-level cache. The size of a chunk depends on the shapes, the instruction set and the number of threads, but the
// results do not depend on it.
#include <omp.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/shared/backend.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const WinogradKernels* winograd_kernels(std::int64_t filter))

const WinogradKernels* winograd_kernels(Isa isa, std::int64_t filter) {
  return for_isa(
      isa, [=] { return plain::winograd_kernels(filter); }, [=] { return avx2::winograd_kernels(filter); },
      [=] { return avx512::winograd_kernels(filter); });
}

namespace {

/// Gap between the matrices of two frequencies, so that they do not all map to the same cache sets.
constexpr std::int64_t skew = 16;

/// Returns the row stride, in floats, of a matrix that is read by columns. The stride is an odd number of cache lines,
/// so that the rows of a column map to different sets of the first-level cache.
std::int64_t row_floats(std::int64_t columns) {
  constexpr std::int64_t line = 16;
  return ceil_divide(columns, line) % 2 == 0 ? columns + line : columns;
}

const WinogradKernels& kernels_for(CpuDevice& device, const Tensor& filters) {
  const WinogradKernels* const kernels = winograd_kernels(device.isa(), filters.shape[0]);
  check(kernels != nullptr && filters.shape[0] == filters.shape[1], "there is no Winograd convolution for this filter");
  return *kernels;
}

/// Returns the number of tiles that approximately fill a core's second-level cache, but at least `least`. The
/// transforms of a tile need `tile_floats` floats.
std::int64_t tiles_in_cache(std::int64_t tile_floats, std::int64_t least) {
  constexpr std::int64_t cache_floats = std::int64_t{1} << 18;
  return std::max(cache_floats / tile_floats, least);
}

std::int64_t most_tiles(const std::vector<WinogradTiling>& tilings) {
  return std::ranges::max(tilings, {}, &WinogradTiling::tiles).tiles;
}

/// Rotates the filters [r, r, c, o] by 180 degrees and exchanges channels and filters: [r, r, o, c]. Processes only the
/// filters in `part`.
void rotate(const float* filters, std::int64_t r, std::int64_t c, std::int64_t o, ThreadShare part, float* rotated) {
  for (std::int64_t k = 0; k < r * r; ++k) {
    const float* const from = filters + (r * r - 1 - k) * c * o;
    float* const to = rotated + k * c * o;
    // Reads 16 rows of `from` together, so that their cache lines stay cached until all filters are read.
    constexpr std::int64_t together = 16;
    for (std::int64_t first = 0; first < c; first += together) {
      const std::int64_t last = std::min(first + together, c);
      for (std::int64_t j = part.first; j < part.last; ++j) {
        for (std::int64_t i = first; i < last; ++i) to[j * c + i] = from[i * o + j];
      }
    }
  }
}

class WideConvolution final : public Conv2dPassCpu {
 public:
  WideConvolution(CpuDevice& device, const WinogradConvolution& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.filters)),
        tilings_(WinogradTiling(task.x, task.y, kernels_.tile, rows_before(), columns_before())
                     .with_short_ends(kernels_.tile, kernels_.short_tile)),
        v_columns_(whole_vectors(channels())),
        m_columns_(whole_vectors(filters())) {
    const std::int64_t frequencies = kernels_.frequencies, threads = device.thread_count();
    // Each chunk reads the filters from the third-level cache once. The number of tiles in a chunk is so large that the
    // products take longer than these reads.
    constexpr std::int64_t least_tiles = 64;
    chunk_tiles_ = std::min(tiles_in_cache(frequencies * (v_columns_ + m_columns_), least_tiles),
                            ceil_divide(most_tiles(tilings_), threads));
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
      for (const WinogradTiling& tiling : tilings_) {
        convolve(workspace, u, tiling, thread, ThreadShare(tiling.tiles, thread, threads));
      }
    }
  }

 private:
  // The sizes that this pass uses. If `rotated` is true, the pass reads dz instead of x.
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.y.shape[3]; }
  std::int64_t rows_before() const { return before(task_.rows_before); }
  std::int64_t columns_before() const { return before(task_.columns_before); }
  std::int64_t before(std::int64_t own) const { return task_.rotated ? kernels_.filter - 1 - own : own; }
  std::int64_t whole_vectors(std::int64_t count) const { return ceil_divide(count, kernels_.lanes) * kernels_.lanes; }

  /// Computes U. Each thread computes a part.
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

  void convolve(float* workspace, const WinogradMatrices& u, const WinogradTiling& tiling, int thread,
                const ThreadShare& mine) const {
    const std::int64_t v_stride = chunk_tiles_ * v_columns_ + skew, m_stride = chunk_tiles_ * m_columns_ + skew;
    const WinogradMatrices v{workspace + v_ + thread * kernels_.frequencies * v_stride, v_columns_, v_stride};
    const WinogradMatrices m{workspace + m_ + thread * kernels_.frequencies * m_stride, m_columns_, m_stride};
    const float* const bias = task_.bias ? task_.bias.floats().data() : nullptr;
    for (std::int64_t first = mine.first; first < mine.last; first += chunk_tiles_) {
      const std::int64_t count = std::min(chunk_tiles_, mine.last - first);
      kernels_.transform_inputs(task_.x.floats().data(), tiling.inputs, workspace + zeros_, first, count, 0, v);
      kernels_.multiply(v, u, tiling.inputs, count, m);
      kernels_.transform_outputs(m, tiling.outputs, bias, task_.relu, first, count, task_.y.floats().data());
    }
  }

  CpuDevice& device_;
  WinogradConvolution task_;
  const WinogradKernels& kernels_;
  std::vector<WinogradTiling> tilings_;
  std::int64_t v_columns_, m_columns_, chunk_tiles_;
  std::size_t zeros_, rotated_, u_, v_, m_;  ///< offsets in the workspace, in floats; each thread has its own V and M
};

class WideFilterGradient final : public Conv2dPassCpu {
 public:
  WideFilterGradient(CpuDevice& device, const WinogradFilterGradient& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.dw)),
        tilings_(WinogradTiling(task.x, task.dz, kernels_.tile, task.rows_before, task.columns_before)
                     .with_short_ends(kernels_.tile, kernels_.short_tile)) {
    const std::int64_t lanes = kernels_.lanes, frequencies = kernels_.frequencies;
    w_.columns = ceil_divide(filters(), lanes) * lanes;
    v_.columns = row_floats(ceil_divide(channels(), lanes) * lanes);
    z_.columns = row_floats(w_.columns);
    // Each block reads and writes the sums once. The number of tiles in a block is so large that the products take
    // longer than these accesses.
    constexpr std::int64_t least_tiles = 96;
    const std::int64_t most = most_tiles(tilings_);
    block_tiles_ = std::min(tiles_in_cache(frequencies * (v_.columns + z_.columns), least_tiles), most);
    const std::int64_t rows = std::min(block_tiles_ * device.thread_count(), most);
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
      for (std::size_t part = 0; part < tilings_.size(); ++part) {
        const WinogradTiling& tiling = tilings_[part];
        for (std::int64_t first = 0; first < tiling.tiles; first += chunk_tiles) {
          const std::int64_t count = std::min(chunk_tiles, tiling.tiles - first);
          transform(tiling, first, ThreadShare(count, thread, threads));
#pragma omp barrier
          multiply(part, first, count, ThreadShare(kernels_.frequencies * channels(), thread, threads));
#pragma omp barrier
        }
      }
      const ThreadShare mine(channels(), thread, threads);
      clear_missing_sums(mine);
      kernels_.transform_filter_gradients(w_, channels(), filters(), mine.first, mine.last, task_.dw.floats().data());
    }
  }

 private:
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.dz.shape[3]; }
  int n() const { return kernels_.tile + kernels_.filter - 1; }

  /// Computes V and Z for a part of the chunk that begins at tile `first`.
  void transform(const WinogradTiling& tiling, std::int64_t first, const ThreadShare& mine) const {
    const std::int64_t count = mine.last - mine.first;
    kernels_.transform_inputs(task_.x.floats().data(), tiling.inputs, zeros_, first + mine.first, count, mine.first,
                              v_);
    kernels_.transform_output_gradients(task_.dz.floats().data(), tiling.outputs, zeros_, first + mine.first, count,
                                        mine.first, z_);
  }

  bool has_sums(std::size_t part, int frequency) const { return has_frequency(tilings_[part].inputs, n(), frequency); }
  /// True if a tiling before `part` has sums of this frequency.
  bool has_sums_before(std::size_t part, int frequency) const {
    for (std::size_t i = 0; i < part; ++i) {
      if (has_sums(i, frequency)) return true;
    }
    return false;
  }

  /// Adds V^T Z of the chunk's tiles to the rows of W in `mine`. A row's number is frequency * channels() + channel.
  void multiply(std::size_t part, std::int64_t first, std::int64_t count, const ThreadShare& mine) const {
    for (std::int64_t at = mine.first; at < mine.last;) {
      const int frequency = static_cast<int>(at / channels());
      const std::int64_t channel = at % channels(), last = std::min(channels(), channel + mine.last - at);
      at += last - channel;
      if (!has_sums(part, frequency)) continue;
      const bool add = first > 0 || has_sums_before(part, frequency);
      kernels_.multiply_transposed(v_, z_, count, block_tiles_, frequency, channel, last, add, w_);
    }
  }

  /// If all tiles are short, no tiling has some of the frequencies. Sets the sums of these frequencies to 0.
  void clear_missing_sums(const ThreadShare& mine) const {
    for (int frequency = 0; frequency < kernels_.frequencies; ++frequency) {
      if (has_sums_before(tilings_.size(), frequency)) continue;
      float* const of_frequency = w_.data + frequency * w_.stride;
      std::fill(of_frequency + mine.first * w_.columns, of_frequency + mine.last * w_.columns, 0.0f);
    }
  }

  CpuDevice& device_;
  WinogradFilterGradient task_;
  const WinogradKernels& kernels_;
  std::vector<WinogradTiling> tilings_;  ///< the terms of the tilings are added to W one tiling after the other
  std::int64_t block_tiles_;             ///< number of tiles per block; each block is summed separately
  WinogradMatrices v_{}, z_{}, w_{};
  float* zeros_ = nullptr;
  std::size_t zeros_at_, v_at_, z_at_, w_at_;  ///< offsets in the workspace, in floats
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradConvolution& task) {
  return std::make_unique<WideConvolution>(device, task);
}
std::unique_ptr<Conv2dPassCpu> make_wide_winograd(CpuDevice& device, const WinogradFilterGradient& task) {
  return std::make_unique<WideFilterGradient>(device, task);
}

}  // namespace carillon
