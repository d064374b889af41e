// Winograd's convolution of images with few channels.
#include <omp.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/conv2d/conv2d_passes_cpu.h"
#include "kernels/conv2d/winograd.h"
#include "kernels/conv2d/winograd_kernels.h"
#include "kernels/shared/backend.h"

namespace carillon {

CARILLON_DECLARE_FOR_ISAS(const NarrowWinogradKernels* narrow_winograd_kernels(std::int64_t filter))

const NarrowWinogradKernels* narrow_winograd_kernels(Isa isa, std::int64_t filter) {
  return for_isa(
      isa, [=] { return plain::narrow_winograd_kernels(filter); },
      [=] { return avx2::narrow_winograd_kernels(filter); }, [=] { return avx512::narrow_winograd_kernels(filter); });
}

namespace {

const NarrowWinogradKernels& kernels_for(CpuDevice& device, const Tensor& filters) {
  const NarrowWinogradKernels* const kernels = narrow_winograd_kernels(device.isa(), filters.shape[0]);
  check(kernels != nullptr && filters.shape[0] == filters.shape[1] &&
            filters.shape[2] <= NarrowWinogradKernels::max_channels,
        "there is no narrow Winograd convolution for these filters");
  return *kernels;
}

/// Returns the number of floats of U. W has the same number.
std::int64_t filter_floats(const NarrowWinogradKernels& kernels, const Tensor& filters) {
  return ceil_divide(filters.shape[3], kernels.lanes) * kernels.lanes * kernels.frequencies * filters.shape[2];
}

class NarrowConvolution final : public Conv2dPassCpu {
 public:
  NarrowConvolution(CpuDevice& device, const WinogradConvolution& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.filters)),
        tiling_(task.x, task.y, kernels_.tile, task.rows_before, task.columns_before) {
    check(!task.rotated, "a narrow Winograd convolution must not be rotated");
    constexpr std::int64_t chunk_floats =
        3072;  // this size is a third of the first-level cache; the filters of a vector need another third
    chunk_tiles_ = std::max<std::int64_t>(chunk_floats / tile_floats(), 4);
    v_floats_ = chunk_tiles_ * tile_floats();
    WorkspaceLayout layout;
    zeros_ = layout.add(channels());
    u_ = layout.add(filter_floats(kernels_, task.filters));
    v_ = layout.add(v_floats_ * device.thread_count());
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    float *const zeros = workspace + zeros_, *const u = workspace + u_;
    std::fill_n(zeros, channels(), 0.0f);
    kernels_.transform_filters(task_.filters.floats().data(), channels(), task_.filters.shape[3], u);
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num();
      float* const v = workspace + v_ + thread * v_floats_;
      const float* const bias = task_.bias ? task_.bias.floats().data() : nullptr;
      const ThreadShare mine(tiling_.tiles, thread, omp_get_num_threads());
      for (std::int64_t first = mine.first; first < mine.last; first += chunk_tiles_) {
        const std::int64_t count = std::min(chunk_tiles_, mine.last - first);
        kernels_.transform_inputs(task_.x.floats().data(), tiling_.inputs, zeros, first, count, v);
        kernels_.convolve(v, channels(), u, tiling_.outputs, bias, task_.relu, first, count, task_.y.floats().data());
      }
    }
  }

 private:
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t tile_floats() const { return kernels_.frequencies * NarrowWinogradKernels::max_channels; }

  CpuDevice& device_;
  WinogradConvolution task_;
  const NarrowWinogradKernels& kernels_;
  WinogradTiling tiling_;
  std::int64_t chunk_tiles_, v_floats_;  ///< v_floats_: number of floats of one thread's V
  std::size_t zeros_, u_, v_;            ///< offsets in the workspace, in floats
};

class NarrowFilterGradient final : public Conv2dPassCpu {
 public:
  NarrowFilterGradient(CpuDevice& device, const WinogradFilterGradient& task)
      : device_(device),
        task_(task),
        kernels_(kernels_for(device, task.dw)),
        tiling_(task.x, task.dz, kernels_.tile, task.rows_before, task.columns_before),
        w_floats_(filter_floats(kernels_, task.dw)) {
    // W is a sum over the tiles of a chunk, then over the chunks of a block, then over the blocks. This limits the
    // length of each sum. The number of blocks is limited because each block has its own W.
    constexpr std::int64_t max_blocks = 64, least_tiles = 32;
    block_tiles_ = std::max(ceil_divide(tiling_.tiles, max_blocks), least_tiles);
    blocks_ = ceil_divide(tiling_.tiles, block_tiles_);
    v_floats_ = chunk_tiles * kernels_.frequencies * NarrowWinogradKernels::max_channels;
    WorkspaceLayout layout;
    zeros_ = layout.add(std::max(channels(), task.dz.shape[3]));
    v_ = layout.add(v_floats_ * device.thread_count());
    w_ = layout.add(w_floats_ * blocks_);
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    float *const zeros = workspace + zeros_, *const w = workspace + w_;
    std::fill_n(zeros, std::max(channels(), task_.dz.shape[3]), 0.0f);
#pragma omp parallel for schedule(static) num_threads(device_.thread_count())
    for (std::int64_t block = 0; block < blocks_; ++block) {
      float* const v = workspace + v_ + omp_get_thread_num() * v_floats_;
      const std::int64_t begin = block * block_tiles_, end = std::min(begin + block_tiles_, tiling_.tiles);
      for (std::int64_t first = begin; first < end; first += chunk_tiles) {
        const std::int64_t count = std::min(chunk_tiles, end - first);
        kernels_.transform_inputs(task_.x.floats().data(), tiling_.inputs, zeros, first, count, v);
        kernels_.multiply_gradients(v, channels(), task_.dz.floats().data(), tiling_.outputs, zeros, first, count,
                                    first > begin, w + block * w_floats_);
      }
    }
    for (std::int64_t block = 1; block < blocks_; ++block) {
      const float* const from = w + block * w_floats_;
      for (std::int64_t i = 0; i < w_floats_; ++i) w[i] += from[i];
    }
    kernels_.transform_filter_gradients(w, channels(), task_.dz.shape[3], task_.dw.floats().data());
  }

 private:
  static constexpr std::int64_t chunk_tiles = 64;  ///< number of tiles per chunk; their V (64 KiB) stays in the L2
                                                   ///< cache

  std::int64_t channels() const { return task_.x.shape[3]; }

  CpuDevice& device_;
  WinogradFilterGradient task_;
  const NarrowWinogradKernels& kernels_;
  WinogradTiling tiling_;
  std::int64_t block_tiles_, blocks_;
  std::int64_t v_floats_, w_floats_;  ///< number of floats of one thread's V and of a block's W
  std::size_t zeros_, v_, w_;         ///< offsets in the workspace, in floats
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradConvolution& task) {
  return std::make_unique<NarrowConvolution>(device, task);
}
std::unique_ptr<Conv2dPassCpu> make_narrow_winograd(CpuDevice& device, const WinogradFilterGradient& task) {
  return std::make_unique<NarrowFilterGradient>(device, task);
}

}  // namespace carillon
