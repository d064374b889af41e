#include "kernels/conv2d/winograd.h"

#include <omp.h>

#include <algorithm>

#include "carillon/core/error.h"
#include "kernels/shared/for_isa.h"

namespace carillon {

namespace plain {
const WinogradKernels* winograd_kernels(std::int64_t filter);
}
namespace avx2 {
const WinogradKernels* winograd_kernels(std::int64_t filter);
}
namespace avx512 {
const WinogradKernels* winograd_kernels(std::int64_t filter);
}

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

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

WinogradImages images_of(const Tensor& t) {
  return {.height = t.shape[1], .width = t.shape[2], .channels = t.shape[3]};
}

/// Cuts the outputs, and with them the inputs, into tiles.
void cut_into_tiles(std::int64_t tile, WinogradImages& inputs, WinogradImages& outputs, std::int64_t rows_before,
                    std::int64_t columns_before) {
  inputs.tiles_down = outputs.tiles_down = ceil_divide(outputs.height, tile);
  inputs.tiles_across = outputs.tiles_across = ceil_divide(outputs.width, tile);
  inputs.first_row = -rows_before;
  inputs.first_column = -columns_before;
  outputs.first_row = outputs.first_column = 0;
}

/// The tiles whose transforms of `tile_bytes` each fill about a core's second cache, `least` at least.
std::int64_t tiles_in_cache(std::int64_t tile_bytes, std::int64_t least) {
  constexpr std::int64_t cache_bytes = std::int64_t{1} << 20;
  return std::max(cache_bytes / tile_bytes, least);
}

/// Memory laid out piece by piece, in floats, each piece aligned.
class Layout {
 public:
  std::size_t add(std::int64_t floats) {
    const std::size_t at = total_;
    total_ += aligned_float_count(static_cast<std::size_t>(floats));
    return at;
  }
  std::size_t total() const { return total_; }

 private:
  std::size_t total_ = 0;
};

/// The part of [0, count) that is thread number `thread`'s.
struct Share {
  std::int64_t first, last;
  Share(std::int64_t count, int thread, int threads)
      : first(count * thread / threads), last(count * (thread + 1) / threads) {}
};

/// filters [r, r, c, o] turned by half a circle, channels and filters exchanged: [r, r, o, c], for channels [first,
/// last).
void rotate(const float* filters, std::int64_t r, std::int64_t c, std::int64_t o, Share part, float* rotated) {
  for (std::int64_t k = 0; k < r * r; ++k) {
    const float* const from = filters + (r * r - 1 - k) * c * o;
    float* const to = rotated + k * c * o;
    for (std::int64_t j = part.first; j < part.last; ++j) {
      for (std::int64_t i = 0; i < c; ++i) to[j * c + i] = from[i * o + j];
    }
  }
}

}  // namespace

bool winograd_can(const Conv2dGeometry& geometry) {
  const SlidingWindow &rows = geometry.vertical, &columns = geometry.horizontal;
  return rows.stride == 1 && columns.stride == 1 && rows.window == columns.window &&
         winograd_kernels(Isa::plain, rows.window) != nullptr;
}

bool winograd_pays(const Shape& filters, const Shape& y) {
  constexpr std::int64_t least_channels = 16;  // fewer leave the transforms without products to pay for them
  constexpr std::int64_t least_extent = 3;     // most of a tile of 4 is used
  return filters[2] >= least_channels && filters[3] >= least_channels && y[1] >= least_extent && y[2] >= least_extent;
}

WinogradConvolution::WinogradConvolution(CpuDevice& device, const Task& task)
    : device_(device),
      task_(task),
      kernels_(kernels_for(device, task.filters)),
      channels_(task.x.shape[3]),
      filters_(task.y.shape[3]),
      inputs_(images_of(task.x)),
      outputs_(images_of(task.y)) {
  const std::int64_t r = kernels_.filter, lanes = kernels_.lanes, frequencies = kernels_.frequencies;
  if (task.rotated) {
    task_.rows_before = r - 1 - task.rows_before;
    task_.columns_before = r - 1 - task.columns_before;
  }
  cut_into_tiles(kernels_.tile, inputs_, outputs_, task_.rows_before, task_.columns_before);
  tiles_ = task.x.shape[0] * outputs_.tiles_down * outputs_.tiles_across;
  v_columns_ = ceil_divide(channels_, lanes) * lanes;
  m_columns_ = ceil_divide(filters_, lanes) * lanes;
  const std::int64_t threads = device.thread_count();
  // Filters are read from the third cache once a chunk: enough tiles for that to be hidden behind the products.
  constexpr std::int64_t least_tiles = 48;
  chunk_tiles_ = tiles_in_cache(frequencies * (v_columns_ + m_columns_) * std::int64_t{sizeof(float)}, least_tiles);
  chunk_tiles_ = std::min(chunk_tiles_, ceil_divide(tiles_, threads));
  Layout layout;
  zeros_ = layout.add(channels_);
  rotated_ = layout.add(task.rotated ? r * r * channels_ * filters_ : 0);
  u_ = layout.add(frequencies * (channels_ * m_columns_ + skew));
  v_ = layout.add(threads * frequencies * (chunk_tiles_ * v_columns_ + skew));
  m_ = layout.add(threads * frequencies * (chunk_tiles_ * m_columns_ + skew));
  device.reserve_workspace(layout.total() * sizeof(float));
}

void WinogradConvolution::run() const {
  float* const workspace = static_cast<float*>(device_.workspace());
  std::fill_n(workspace + zeros_, channels_, 0.0f);
#pragma omp parallel num_threads(device_.thread_count())
  {
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const WinogradMatrices u = transform_filters(workspace, thread, threads);
#pragma omp barrier
    const std::int64_t v_stride = chunk_tiles_ * v_columns_ + skew, m_stride = chunk_tiles_ * m_columns_ + skew;
    const WinogradMatrices v{workspace + v_ + thread * kernels_.frequencies * v_stride, v_columns_, v_stride};
    const WinogradMatrices m{workspace + m_ + thread * kernels_.frequencies * m_stride, m_columns_, m_stride};
    const Share mine(tiles_, thread, threads);
    for (std::int64_t first = mine.first; first < mine.last; first += chunk_tiles_) {
      const std::int64_t count = std::min(chunk_tiles_, mine.last - first);
      kernels_.transform_inputs(task_.x.floats().data(), inputs_, workspace + zeros_, first, count, 0, v);
      kernels_.multiply(v, u, count, channels_, m);
      kernels_.transform_outputs(m, outputs_, task_.bias ? task_.bias.floats().data() : nullptr, task_.relu, first,
                                 count, task_.y.floats().data());
    }
  }
}

WinogradMatrices WinogradConvolution::transform_filters(float* workspace, int thread, int threads) const {
  const WinogradMatrices u{workspace + u_, m_columns_, channels_ * m_columns_ + skew};
  const Share mine(channels_, thread, threads);
  const float* filters = task_.filters.floats().data();
  if (task_.rotated) {
    rotate(filters, kernels_.filter, filters_, channels_, mine, workspace + rotated_);
    filters = workspace + rotated_;
  }
  kernels_.transform_filters(filters, channels_, filters_, mine.first, mine.last, u);
  return u;
}

WinogradFilterGradient::WinogradFilterGradient(CpuDevice& device, const Task& task)
    : device_(device),
      task_(task),
      kernels_(kernels_for(device, task.dw)),
      inputs_(images_of(task.x)),
      gradients_(images_of(task.dz)) {
  const std::int64_t lanes = kernels_.lanes, frequencies = kernels_.frequencies;
  cut_into_tiles(kernels_.tile, inputs_, gradients_, task.rows_before, task.columns_before);
  tiles_ = task.x.shape[0] * gradients_.tiles_down * gradients_.tiles_across;
  v_columns_ = ceil_divide(inputs_.channels, lanes) * lanes;
  z_columns_ = ceil_divide(gradients_.channels, lanes) * lanes;
  // The sums are read and written once a block: enough tiles for that to be hidden behind the products.
  constexpr std::int64_t least_tiles = 96;
  block_tiles_ = tiles_in_cache(frequencies * (v_columns_ + z_columns_) * std::int64_t{sizeof(float)}, least_tiles);
  block_tiles_ = std::min(block_tiles_, tiles_);
  const std::int64_t rows = block_tiles_ * device.thread_count();
  v_stride_ = rows * v_columns_ + skew;
  z_stride_ = rows * z_columns_ + skew;
  w_stride_ = inputs_.channels * z_columns_ + skew;
  Layout layout;
  zeros_ = layout.add(std::max(inputs_.channels, gradients_.channels));
  v_ = layout.add(frequencies * v_stride_);
  z_ = layout.add(frequencies * z_stride_);
  w_ = layout.add(frequencies * w_stride_);
  device.reserve_workspace(layout.total() * sizeof(float));
}

void WinogradFilterGradient::run() const {
  float* const workspace = static_cast<float*>(device_.workspace());
  float* const zeros = workspace + zeros_;
  std::fill_n(zeros, std::max(inputs_.channels, gradients_.channels), 0.0f);
  const WinogradMatrices v{workspace + v_, v_columns_, v_stride_}, z{workspace + z_, z_columns_, z_stride_},
      w{workspace + w_, z_columns_, w_stride_};
  const std::int64_t channels = inputs_.channels;
#pragma omp parallel num_threads(device_.thread_count())
  {
    const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
    const std::int64_t chunk_tiles = block_tiles_ * threads;
    for (std::int64_t first = 0; first < tiles_; first += chunk_tiles) {
      const std::int64_t count = std::min(chunk_tiles, tiles_ - first);
      const Share mine(count, thread, threads);
      const std::int64_t own_first = first + mine.first, own_count = mine.last - mine.first;
      kernels_.transform_inputs(task_.x.floats().data(), inputs_, zeros, own_first, own_count, mine.first, v);
      kernels_.transform_output_gradients(task_.dz.floats().data(), gradients_, zeros, own_first, own_count, mine.first,
                                          z);
#pragma omp barrier
      // A thread's sums: whole frequencies, and channels of one where there are more threads.
      const Share sums(kernels_.frequencies * channels, thread, threads);
      for (std::int64_t at = sums.first; at < sums.last;) {
        const std::int64_t frequency = at / channels, channel = at % channels;
        const std::int64_t last = std::min(channels, channel + sums.last - at);
        kernels_.multiply_transposed(v, z, count, block_tiles_, static_cast<int>(frequency), channel, last, first > 0,
                                     w);
        at += last - channel;
      }
#pragma omp barrier
    }
    const Share mine(channels, thread, threads);
    kernels_.transform_filter_gradients(w, channels, gradients_.channels, mine.first, mine.last,
                                        task_.dw.floats().data());
  }
}

}  // namespace carillon
