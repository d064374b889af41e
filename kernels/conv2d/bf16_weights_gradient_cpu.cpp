// The weights gradient of a convolution in bf16.
#include <omp.h>

#include <algorithm>

#include "kernels/conv2d/bf16_passes_cpu.h"
#include "kernels/conv2d/workspace_layout.h"

namespace carillon {
namespace {

/// Each step of a product sums over 16 images and two columns.
class WeightsGradient final : public Conv2dPassCpu {
 public:
  WeightsGradient(CpuDevice& device, const Bf16WeightsGradient& task)
      : device_(device), task_(task), kernels_(bf16_tile_kernels(device.isa())) {
    even_columns_ = task.columns.output + task.columns.output % 2;
    positions_ = even_columns_ + (task.columns.window - 1) / task.columns.stride;
    channel_stride_ = task.columns.stride * positions_ * tile_rows;
    x_row_ = channel_blocks() * tile_rows * channel_stride_;
    dz_row_ = even_columns_ * half_tile;
    strip_rows_ = task.rows.output;
    while (strip_rows_ > 1 && strip_bytes() > packed_cache_bytes) --strip_rows_;
    strip_rows_ = even_part(task.rows.output, strip_rows_);
    const std::int64_t fitting = std::max<std::int64_t>(packed_cache_bytes / strip_bytes(), 1);
    groups_per_chunk_ = strip_rows_ == task.rows.output ? even_part(groups(), fitting) : 1;
    dz_panel_ = groups_per_chunk_ * strip_rows_ * dz_row_;
    blocks_per_product_ = even_part(channel_blocks(), TileProduct::most_left);
    WorkspaceLayout layout;
    x_ = layout.add(floats_of(groups_per_chunk_ * x_rows() * x_row_));
    dz_ = layout.add(floats_of(panels() * dz_panel_));
    sums_ = layout.add(taps() * panels() * channel_blocks() * tile_sums);
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
    Bf16* const x = reinterpret_cast<Bf16*>(workspace + x_);
    Bf16* const dz = reinterpret_cast<Bf16*>(workspace + dz_);
    float* const sums = workspace + sums_;
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      kernels_.begin();
      const ThreadShare mine(taps() * channel_sets() * panels(), thread, threads);
      for (std::int64_t group = 0; group < groups(); group += groups_per_chunk_) {
        for (std::int64_t row = 0; row < task_.rows.output; row += strip_rows_) {
          const Chunk chunk{group, std::min(groups_per_chunk_, groups() - group), row,
                            std::min(row + strip_rows_, task_.rows.output)};
          pack(chunk, ThreadShare(chunk.groups * (x_rows() + strip_rows_), thread, threads), x, dz);
#pragma omp barrier
          multiply(chunk, mine, x, dz, sums);
#pragma omp barrier
        }
      }
      kernels_.end();
      const ThreadShare tiles(taps() * panels() * channel_blocks(), thread, threads);
      for (std::int64_t i = tiles.first; i < tiles.last; ++i) write(i, sums + i * tile_sums);
    }
  }

 private:
  /// Groups of images and rows of dz that are packed together.
  struct Chunk {
    std::int64_t group, groups, first_row, last_row;
  };

  std::int64_t images() const { return task_.x.shape[0]; }
  std::int64_t groups() const { return ceil_divide(images(), tile_rows); }
  std::int64_t channels() const { return task_.x.shape[3]; }
  std::int64_t filters() const { return task_.dz.shape[3]; }
  std::int64_t channel_blocks() const { return ceil_divide(channels(), tile_rows); }
  std::int64_t channel_sets() const { return ceil_divide(channel_blocks(), blocks_per_product_); }
  std::int64_t panels() const { return ceil_divide(filters(), tile_rows); }
  std::int64_t taps() const { return task_.rows.window * task_.columns.window; }
  std::int64_t x_rows() const { return (strip_rows_ - 1) * task_.rows.stride + task_.rows.window; }
  std::int64_t strip_bytes() const { return 2 * (x_rows() * x_row_ + strip_rows_ * panels() * dz_row_); }
  /// The row of x that the chunk's packed row 0 holds.
  std::int64_t top(const Chunk& chunk) const { return chunk.first_row * task_.rows.stride - task_.rows.before; }

  /// Packs this thread's share of the chunk's rows: first those of x, then those of dz.
  void pack(const Chunk& chunk, const ThreadShare& mine, Bf16* x, Bf16* dz) const {
    const std::int64_t of_x = chunk.groups * x_rows();
    for (std::int64_t i = mine.first; i < mine.last; ++i) {
      if (i < of_x) {
        pack_x(chunk.group + i / x_rows(), top(chunk) + i % x_rows(), x + i * x_row_);
      } else {
        const std::int64_t at = i - of_x, row = chunk.first_row + at % strip_rows_;
        if (row < chunk.last_row) pack_dz(chunk.group + at / strip_rows_, row, dz + at * dz_row_);
      }
    }
  }

  /// A row of x as [channel][column % stride][column / stride][16 images].
  void pack_x(std::int64_t group, std::int64_t row, Bf16* to) const {
    const SlidingWindow& columns = task_.columns;
    if (row < 0 || row >= task_.rows.input) return;  // no product reads it
    const std::int64_t image = task_.rows.input * columns.input * channels();
    const Bf16* const from =
        static_cast<const Bf16*>(task_.x.data) + group * tile_rows * image + row * columns.input * channels();
    for (std::int64_t phase = 0; phase < columns.stride; ++phase) {
      for (std::int64_t position = 0; position < positions_; ++position) {
        const std::int64_t column = position * columns.stride + phase - columns.before;
        const bool inside = column >= 0 && column < columns.input;
        const TileSource<Bf16> source{from + (inside ? column : 0) * channels(), image,
                                      inside ? images_of_group(group, images()) : 0};
        kernels_.pack_transposed(source, channels(), to + (phase * positions_ + position) * tile_rows, channel_stride_);
      }
    }
  }

  /// A row of dz: [column][8 pairs of images][16 filters][2] of each panel.
  void pack_dz(std::int64_t group, std::int64_t row, Bf16* to) const {
    const std::int64_t width = task_.columns.output, image = task_.rows.output * width * filters();
    const Bf16* const from =
        static_cast<const Bf16*>(task_.dz.data) + group * tile_rows * image + row * width * filters();
    for (std::int64_t column = 0; column < even_columns_; ++column) {
      const bool inside = column < width;
      const TileSource<Bf16> source{from + (inside ? column : 0) * filters(), image,
                                    inside ? images_of_group(group, images()) : 0};
      kernels_.pack_right(source, filters(), to + column * half_tile, dz_panel_);
    }
  }

  /// The products of a chunk for one tap and a set of blocks of 16 channels.
  void list_tiles(const Chunk& chunk, std::int64_t tap, std::int64_t block, std::int64_t count, const Bf16* x,
                  TileList& list) const {
    const SlidingWindow &rows = task_.rows, &columns = task_.columns;
    const std::int64_t i = tap / columns.window, j = tap % columns.window;
    const std::int64_t first_position = j % columns.stride * positions_ + j / columns.stride;
    list.clear();
    for (std::int64_t g = 0; g < chunk.groups; ++g) {
      for (std::int64_t row = chunk.first_row; row < chunk.last_row; ++row) {
        const std::int64_t x_row = row * rows.stride + i - rows.before;
        if (x_row < 0 || x_row >= rows.input) continue;
        const Bf16* const from = x + (g * x_rows() + x_row - top(chunk)) * x_row_ + block * tile_rows * channel_stride_;
        const std::int64_t dz_row = (g * strip_rows_ + row - chunk.first_row) * dz_row_;
        for (std::int64_t column = 0; column < even_columns_; column += 2) {
          for (std::int64_t m = 0; m < count; ++m) {
            list.left.push_back(from + m * tile_rows * channel_stride_ + (first_position + column) * tile_rows);
          }
          list.right.push_back(dz_row + column * half_tile);
        }
      }
    }
  }

  /// Adds the chunk's products to some of the sums, numbered by tap, set of channels and panel.
  void multiply(const Chunk& chunk, const ThreadShare& mine, const Bf16* x, const Bf16* dz, float* sums) const {
    thread_local TileList list;
    for (std::int64_t at = mine.first; at < mine.last; ++at) {
      const std::int64_t panel = at % panels(), set = at / panels() % channel_sets(),
                         tap = at / panels() / channel_sets();
      const std::int64_t block = set * blocks_per_product_,
                         count = std::min(blocks_per_product_, channel_blocks() - block);
      if (at == mine.first || panel == 0) list_tiles(chunk, tap, block, count, x, list);
      TileProduct product = list.product(static_cast<int>(count));
      product.left_stride = channel_stride_;
      product.right = dz + panel * dz_panel_;
      product.sums = sums + ((tap * panels() + panel) * channel_blocks() + block) * tile_sums;
      product.add = chunk.group > 0 || chunk.first_row > 0;
      kernels_.multiply(product);
    }
  }

  /// Sums i, numbered by tap, panel and block of channels, to dW.
  void write(std::int64_t i, const float* sums) const {
    const std::int64_t channel = i % channel_blocks() * tile_rows, filter = i / channel_blocks() % panels() * tile_rows,
                       tap = i / channel_blocks() / panels();
    float* const to = task_.dw.floats().data() + (tap * channels() + channel) * filters() + filter;
    kernels_.write_sums(
        sums, {to, filters(), std::min(tile_rows, channels() - channel), std::min(tile_rows, filters() - filter)});
  }

  CpuDevice& device_;
  Bf16WeightsGradient task_;
  const Bf16TileKernels& kernels_;
  std::int64_t even_columns_;        ///< columns of dz, and one of zeros if their number is odd
  std::int64_t positions_;           ///< columns of packed x, for each remainder by the stride
  std::int64_t channel_stride_;      ///< elements of a channel in a row of packed x
  std::int64_t x_row_, dz_row_;      ///< elements of a packed row; dz: of a panel
  std::int64_t dz_panel_;            ///< elements of a panel of packed dz: all rows of a chunk
  std::int64_t strip_rows_;          ///< rows of dz in a chunk
  std::int64_t groups_per_chunk_;    ///< groups of 16 images in a chunk
  std::int64_t blocks_per_product_;  ///< blocks of 16 channels that share right tiles
  std::size_t x_, dz_, sums_;        ///< offsets in the workspace, in floats
};

}  // namespace

std::unique_ptr<Conv2dPassCpu> make_bf16_pass(CpuDevice& device, const Bf16WeightsGradient& task) {
  return std::make_unique<WeightsGradient>(device, task);
}

}  // namespace carillon
