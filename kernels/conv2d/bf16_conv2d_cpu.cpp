#include "kernels/conv2d/bf16_conv2d.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "kernels/conv2d/gather_axis.h"
#include "kernels/conv2d/winograd_tiling.h"
#include "kernels/shared/bf16_tiles.h"

namespace carillon {
namespace {

constexpr std::int64_t half_tile = tile_elements / 2;
constexpr std::int64_t cache_bytes = std::int64_t{1} << 20;  ///< of a core's second-level cache, for packed operands

alignas(64) constexpr Bf16 zero_tile[tile_elements] = {};

/// Number of floats that hold `elements` of bf16.
std::int64_t floats_of(std::int64_t elements) { return ceil_divide(elements, 2); }

/// The size of the largest part if `count` is split evenly into the fewest parts of at most `most`.
std::int64_t even_part(std::int64_t count, std::int64_t most) { return ceil_divide(count, ceil_divide(count, most)); }

/// A left tile's rows as the columns of a right tile: pairs of elements are transposed.
void transpose_pairs(const Bf16* left, Bf16* right) {
  for (std::int64_t pair = 0; pair < tile_depth / 2; ++pair) {
    for (std::int64_t row = 0; row < tile_rows; ++row) {
      std::copy_n(left + row * tile_depth + 2 * pair, 2, right + pair * 2 * tile_rows + 2 * row);
    }
  }
}

/// The left tiles and the places of the right tiles of a TileProduct.
struct TileList {
  std::vector<const Bf16*> left;
  std::vector<std::int64_t> right;

  void clear() {
    left.clear();
    right.clear();
  }
  TileProduct product(int count) const {
    return {.count = count,
            .steps = static_cast<std::int64_t>(right.size()),
            .left = left.data(),
            .right_offsets = right.data()};
  }
};

/// Computes y from x, or dx from dz. A panel is the right tiles of 16 outputs: of all taps and channels.
class Bf16Convolution final : public Conv2dPassCpu {
 public:
  struct Task {
    Tensor source, filters, bias, target;
    GatherAxis rows, columns;
    bool relu = false;
  };

  Bf16Convolution(CpuDevice& device, const Task& task)
      : device_(device), task_(task), kernels_(bf16_tile_kernels(device.isa())) {
    const std::int64_t threads = device.thread_count();
    const std::int64_t in_phase = ceil_divide(task.columns.target, task.columns.period());
    // Up to six left tiles share a right tile: neighbouring pixels, or groups of images at the same pixel.
    groups_per_product_ = in_phase <= 4 ? even_part(groups(), TileProduct::most_left) : 1;
    pixels_per_product_ = groups_per_product_ > 1 ? 1 : even_part(in_phase, TileProduct::most_left);
    const std::int64_t row_bytes = groups_per_product_ * depth_blocks() * task.columns.source * tile_elements * 2;
    strip_rows_ = task.rows.target;
    const std::int64_t least =
        ceil_divide(task.rows.window, task.rows.stride);  // fewer rows would pack most rows twice
    while (strip_rows_ > least && task.rows.most_sources(strip_rows_) * row_bytes > cache_bytes) --strip_rows_;
    const std::int64_t for_each_thread = ceil_divide(threads, ceil_divide(groups(), groups_per_product_));
    strip_rows_ = even_part(task.rows.target, std::min(strip_rows_, ceil_divide(task.rows.target, for_each_thread)));
    plane_ = task.rows.most_sources(strip_rows_) * task.columns.source * tile_elements;
    panel_ = depth_blocks() * taps() * tile_elements;
    panels_in_cache_ = std::clamp<std::int64_t>(cache_bytes / (2 * panel_), 1, panels());
    cell_floats_ = static_cast<std::int64_t>(
        aligned_float_count(static_cast<std::size_t>(floats_of(groups_per_product_ * depth_blocks() * plane_))));
    WorkspaceLayout layout;
    weights_ = layout.add(floats_of(panels() * panel_));
    cells_ = layout.add(threads * cell_floats_);
    device.reserve_workspace(layout.bytes());
  }

  void run() override {
    float* const workspace = static_cast<float*>(device_.workspace());
#pragma omp parallel num_threads(device_.thread_count())
    {
      const int thread = omp_get_thread_num(), threads = omp_get_num_threads();
      Bf16* const weights = reinterpret_cast<Bf16*>(workspace + weights_);
      const ThreadShare blocks(taps() * depth_blocks(), thread, threads);
      for (std::int64_t i = blocks.first; i < blocks.last; ++i)
        pack_weights(i / depth_blocks(), i % depth_blocks(), weights);
#pragma omp barrier
      Bf16* const cells = reinterpret_cast<Bf16*>(workspace + cells_ + static_cast<std::size_t>(thread * cell_floats_));
      kernels_.begin();
      const std::int64_t strips = ceil_divide(task_.rows.target, strip_rows_);
      const ThreadShare mine(ceil_divide(groups(), groups_per_product_) * strips, thread, threads);
      for (std::int64_t i = mine.first; i < mine.last; ++i) {
        convolve(weights, cells, i / strips * groups_per_product_, i % strips * strip_rows_);
      }
      kernels_.end();
    }
  }

 private:
  std::int64_t images() const { return task_.source.shape[0]; }
  std::int64_t groups() const { return ceil_divide(images(), tile_rows); }
  std::int64_t depth() const { return task_.source.shape[3]; }
  std::int64_t outputs() const { return task_.target.shape[3]; }
  std::int64_t depth_blocks() const { return ceil_divide(depth(), tile_depth); }
  std::int64_t panels() const { return ceil_divide(outputs(), tile_rows); }
  std::int64_t taps() const { return task_.rows.window * task_.columns.window; }
  std::int64_t images_of(std::int64_t group) const { return std::min(tile_rows, images() - group * tile_rows); }

  /// The right tiles of all panels for one tap and 32 of the source's channels: [panel][block][tap].
  void pack_weights(std::int64_t tap, std::int64_t block, Bf16* weights) const {
    Bf16* const to = weights + (block * taps() + tap) * tile_elements;
    const float* const filters = task_.filters.floats().data() + tap * depth() * outputs();
    const std::int64_t first = block * tile_depth, last = std::min(first + tile_depth, depth());
    if (!task_.rows.backward) {  // filters [tap][depth][outputs]
      for (std::int64_t half = 0; half < 2; ++half) {
        const std::int64_t row = std::min(first + half * tile_rows, last);
        const TileSource source{filters + row * outputs(), outputs(), std::min(tile_rows, last - row)};
        kernels_.pack_right(source, outputs(), to + half * half_tile, panel_);
      }
      return;
    }
    for (std::int64_t panel = 0; panel < panels(); ++panel) {  // filters [tap][outputs][depth]
      const std::int64_t row = panel * tile_rows;
      const TileSource source{filters + row * depth() + first, depth(), std::min(tile_rows, outputs() - row)};
      alignas(64) Bf16 rows[tile_elements];
      kernels_.pack_left(source, last - first, rows, tile_elements);
      transpose_pairs(rows, to + panel * panel_);
    }
  }

  /// Source rows [rows.first, rows.last) of the groups from `first_group`, as cells [group][block][row][column].
  void pack_cells(std::int64_t first_group, std::int64_t group_count, const GatherAxis::Range& rows,
                  Bf16* cells) const {
    const std::int64_t height = task_.rows.source, width = task_.columns.source;
    for (std::int64_t g = 0; g < group_count; ++g) {
      const float* const group =
          task_.source.floats().data() + (first_group + g) * tile_rows * height * width * depth();
      for (std::int64_t pixel = 0; pixel < rows.length() * width; ++pixel) {
        const TileSource source{group + (rows.first * width + pixel) * depth(), height * width * depth(),
                                images_of(first_group + g)};
        kernels_.pack_left(source, depth(), cells + g * depth_blocks() * plane_ + pixel * tile_elements, plane_);
      }
    }
  }

  /// Lists the products of `count` pixels of a row (`column`, `column` + period, ...), or of one pixel in each of
  /// `group_count` groups. `cells` starts at source row `first_row`.
  void list_tiles(std::int64_t row, std::int64_t column, std::int64_t count, std::int64_t group_count,
                  std::int64_t first_row, const Bf16* cells, TileList& list) const {
    const GatherAxis &rows = task_.rows, &columns = task_.columns;
    list.clear();
    for (std::int64_t block = 0; block < depth_blocks(); ++block) {
      for (std::int64_t i = 0; i < rows.window; ++i) {
        const std::int64_t source_row = rows.source_of(row, i);
        if (source_row < 0) continue;
        const Bf16* const cell_row = cells + block * plane_ + (source_row - first_row) * columns.source * tile_elements;
        for (std::int64_t j = 0; j < columns.window; ++j) {
          const std::size_t before = list.left.size();
          bool any = false;
          for (std::int64_t m = 0; m < count; ++m) {
            const std::int64_t at = columns.source_of(column + m * columns.period(), j);
            any = any || at >= 0;
            for (std::int64_t g = 0; g < group_count; ++g) {
              list.left.push_back(at < 0 ? zero_tile : cell_row + g * depth_blocks() * plane_ + at * tile_elements);
            }
          }
          if (any) {
            list.right.push_back((block * taps() + i * columns.window + j) * tile_elements);
          } else {
            list.left.resize(before);
          }
        }
      }
    }
  }

  void write(const float* sums, std::int64_t group, std::int64_t row, std::int64_t column, std::int64_t panel) const {
    const std::int64_t height = task_.rows.target, width = task_.columns.target, first = panel * tile_rows;
    float* const to =
        task_.target.floats().data() + ((group * tile_rows * height + row) * width + column) * outputs() + first;
    const float* const bias = task_.bias ? task_.bias.floats().data() + first : nullptr;
    kernels_.write_sums(sums, bias, task_.relu,
                        {to, height * width * outputs(), images_of(group), std::min(tile_rows, outputs() - first)});
  }

  /// A strip of target rows of up to `groups_per_product_` groups.
  void convolve(const Bf16* weights, Bf16* cells, std::int64_t group, std::int64_t first_row) const {
    const std::int64_t last_row = std::min(first_row + strip_rows_, task_.rows.target);
    const std::int64_t group_count = std::min(groups_per_product_, groups() - group);
    const GatherAxis::Range sources = task_.rows.sources_of(first_row, last_row);
    pack_cells(group, group_count, sources, cells);
    thread_local TileList list;
    alignas(64) float sums[TileProduct::most_left * tile_sums];
    const std::int64_t period = task_.columns.period(), width = task_.columns.target;
    for (std::int64_t first_panel = 0; first_panel < panels(); first_panel += panels_in_cache_) {
      const std::int64_t last_panel = std::min(first_panel + panels_in_cache_, panels());
      for (std::int64_t row = first_row; row < last_row; ++row) {
        for (std::int64_t phase = 0; phase < std::min(period, width); ++phase) {
          for (std::int64_t column = phase; column < width; column += pixels_per_product_ * period) {
            const std::int64_t count = std::min(pixels_per_product_, ceil_divide(width - column, period));
            list_tiles(row, column, count, group_count, sources.first, cells, list);
            TileProduct product = list.product(static_cast<int>(count * group_count));
            product.sums = sums;
            for (std::int64_t panel = first_panel; panel < last_panel; ++panel) {
              product.right = weights + panel * panel_;
              kernels_.multiply(product);
              for (std::int64_t m = 0; m < count; ++m) {
                for (std::int64_t g = 0; g < group_count; ++g) {
                  write(sums + (m * group_count + g) * tile_sums, group + g, row, column + m * period, panel);
                }
              }
            }
          }
        }
      }
    }
  }

  CpuDevice& device_;
  Task task_;
  const Bf16TileKernels& kernels_;
  std::int64_t groups_per_product_;  ///< groups of 16 images that share right tiles
  std::int64_t pixels_per_product_;  ///< pixels of a row that share right tiles
  std::int64_t strip_rows_;          ///< target rows between two packings
  std::int64_t plane_;               ///< elements of the cells of a strip, for 32 channels
  std::int64_t panel_;               ///< elements of the right tiles for 16 outputs
  std::int64_t panels_in_cache_;     ///< panels that stay in the cache
  std::int64_t cell_floats_;
  std::size_t weights_, cells_;  ///< offsets in the workspace, in floats; cells for each thread
};

/// dW from x and dz. Each step of a product sums over 16 images and two columns.
class Bf16WeightsGradient final : public Conv2dPassCpu {
 public:
  struct Task {
    Tensor x, dz, dw;
    SlidingWindow rows, columns;
  };

  Bf16WeightsGradient(CpuDevice& device, const Task& task)
      : device_(device), task_(task), kernels_(bf16_tile_kernels(device.isa())) {
    even_columns_ = task.columns.output + task.columns.output % 2;
    positions_ = even_columns_ + (task.columns.window - 1) / task.columns.stride;
    channel_stride_ = task.columns.stride * positions_ * tile_rows;
    x_row_ = channel_blocks() * tile_rows * channel_stride_;
    dz_row_ = panels() * even_columns_ * half_tile;
    strip_rows_ = task.rows.output;
    while (strip_rows_ > 1 && strip_bytes() > cache_bytes) --strip_rows_;
    strip_rows_ = even_part(task.rows.output, strip_rows_);
    const std::int64_t fitting = std::max<std::int64_t>(cache_bytes / strip_bytes(), 1);
    groups_per_chunk_ = strip_rows_ == task.rows.output ? even_part(groups(), fitting) : 1;
    blocks_per_product_ = even_part(channel_blocks(), TileProduct::most_left);
    WorkspaceLayout layout;
    x_ = layout.add(floats_of(groups_per_chunk_ * x_rows() * x_row_));
    dz_ = layout.add(floats_of(groups_per_chunk_ * strip_rows_ * dz_row_));
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
  std::int64_t images_of(std::int64_t group) const { return std::min(tile_rows, images() - group * tile_rows); }
  std::int64_t x_rows() const { return (strip_rows_ - 1) * task_.rows.stride + task_.rows.window; }
  std::int64_t strip_bytes() const { return 2 * (x_rows() * x_row_ + strip_rows_ * dz_row_); }
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
    const float* const from = task_.x.floats().data() + group * tile_rows * image + row * columns.input * channels();
    for (std::int64_t phase = 0; phase < columns.stride; ++phase) {
      for (std::int64_t position = 0; position < positions_; ++position) {
        const std::int64_t column = position * columns.stride + phase - columns.before;
        const bool inside = column >= 0 && column < columns.input;
        const TileSource source{from + (inside ? column : 0) * channels(), image, inside ? images_of(group) : 0};
        kernels_.pack_transposed(source, channels(), to + (phase * positions_ + position) * tile_rows, channel_stride_);
      }
    }
  }

  /// A row of dz as [panel][column][8 pairs of images][16 filters][2].
  void pack_dz(std::int64_t group, std::int64_t row, Bf16* to) const {
    const std::int64_t width = task_.columns.output, image = task_.rows.output * width * filters();
    const float* const from = task_.dz.floats().data() + group * tile_rows * image + row * width * filters();
    for (std::int64_t column = 0; column < even_columns_; ++column) {
      const bool inside = column < width;
      const TileSource source{from + (inside ? column : 0) * filters(), image, inside ? images_of(group) : 0};
      kernels_.pack_right(source, filters(), to + column * half_tile, even_columns_ * half_tile);
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
      product.right = dz + panel * even_columns_ * half_tile;
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
        sums, nullptr, false,
        {to, filters(), std::min(tile_rows, channels() - channel), std::min(tile_rows, filters() - filter)});
  }

  CpuDevice& device_;
  Task task_;
  const Bf16TileKernels& kernels_;
  std::int64_t even_columns_;        ///< columns of dz, and one of zeros if their number is odd
  std::int64_t positions_;           ///< columns of packed x, for each remainder by the stride
  std::int64_t channel_stride_;      ///< elements of a channel in a row of packed x
  std::int64_t x_row_, dz_row_;      ///< elements of a packed row
  std::int64_t strip_rows_;          ///< rows of dz in a chunk
  std::int64_t groups_per_chunk_;    ///< groups of 16 images in a chunk
  std::int64_t blocks_per_product_;  ///< blocks of 16 channels that share right tiles
  std::size_t x_, dz_, sums_;        ///< offsets in the workspace, in floats
};

}  // namespace

bool bf16_pays(const Shape& filters) {
  constexpr std::int64_t least = 16;
  return filters[2] >= least && filters[3] >= least;
}

Conv2dPassesCpu make_bf16_conv2d(const Conv2dGeometry& geometry, CpuDevice& device, const OpTensors& tensors) {
  const Tensor &x = tensors.inputs.at(0), &y = tensors.outputs.at(0), &weights = tensors.parameters.at(0);
  Conv2dPassesCpu passes;
  passes.forward = std::make_unique<Bf16Convolution>(
      device, Bf16Convolution::Task{.source = x,
                                    .filters = weights,
                                    .bias = biases_of(tensors),
                                    .target = y,
                                    .rows = GatherAxis::forward_of(geometry.vertical),
                                    .columns = GatherAxis::forward_of(geometry.horizontal),
                                    .relu = geometry.relu});
  if (tensors.parameter_gradients.empty()) return passes;
  const Tensor &dx = tensors.input_gradients.at(0), &dz = tensors.output_gradients.at(0);
  passes.weights_gradient = std::make_unique<Bf16WeightsGradient>(
      device,
      Bf16WeightsGradient::Task{x, dz, tensors.parameter_gradients.at(0), geometry.vertical, geometry.horizontal});
  if (!dx) return passes;
  passes.data_gradient = std::make_unique<Bf16Convolution>(
      device, Bf16Convolution::Task{.source = dz,
                                    .filters = weights,
                                    .bias = {},
                                    .target = dx,
                                    .rows = GatherAxis::backward_of(geometry.vertical),
                                    .columns = GatherAxis::backward_of(geometry.horizontal)});
  return passes;
}

}  // namespace carillon
